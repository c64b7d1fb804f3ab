package classify

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// MarshalJSON writes the verdict on one line, as `mcpbridge classify --json`
// prints it and as it goes to hosts. status is 0 where no response head
// arrived; retryAfterMs, rpcError and resultType are null where there is none.
func (v Verdict) MarshalJSON() ([]byte, error) {
	b := append([]byte(`{"layer":`), quote(v.Layer.String())...)
	b = append(append(b, `,"outcome":`...), quote(v.Outcome.String())...)
	b = append(append(b, `,"effect":`...), quote(v.Effect.String())...)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(v.Status), 10)
	b = append(append(b, `,"retryAfterMs":`...), v.retryAfterJSON()...)
	rpcError, err := v.RPCError.json()
	if err != nil {
		return nil, err
	}
	b = append(append(b, `,"rpcError":`...), rpcError...)
	resultType := []byte("null")
	if v.ResultType != "" {
		resultType = quote(v.ResultType)
	}
	b = append(append(b, `,"resultType":`...), resultType...)
	b = append(append(b, `,"why":`...), quote(v.Why)...)
	return append(b, '}'), nil
}

func (v Verdict) retryAfterJSON() string {
	if v.RetryAfter == nil {
		return "null"
	}
	return strconv.FormatInt(v.RetryAfter.Milliseconds(), 10)
}

func (e *RPCError) json() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	b := strconv.AppendInt([]byte(`{"code":`), e.Code, 10)
	b = append(append(b, `,"message":`...), quote(e.Message)...)
	if e.Data != nil {
		data := jsontext.Value(e.Data).Clone()
		if err := data.Compact(); err != nil {
			return nil, err
		}
		b = append(append(b, `,"data":`...), data...)
	}
	return append(b, '}'), nil
}

// quote returns text as a JSON string. What is no UTF-8 is replaced.
func quote(text string) []byte {
	b, _ := jsontext.AppendQuote(nil, text) // the error only says that it replaced
	return b
}
