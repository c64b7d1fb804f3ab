package bridgetest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"time"
)

const questionTTL = time.Hour // a requestState is refused after that

// A round is what a requestState carries from one round of questions to the
// next (MCP 2026-07-28, mrtr, "Server Requirements").
type round struct {
	Request []byte    `json:"request"` // digest of method, name and arguments
	Answers fields    `json:"answers"`
	Expires time.Time `json:"expires"`
}

// inputRequired is the result that asks.
func (c *Call) inputRequired(q *question) object {
	o := object{
		"resultType":    "input_required",
		"inputRequests": object{q.name: object{"method": q.method, "params": q.params}},
	}
	o["requestState"] = c.up.seal(round{c.digest(), c.answers, time.Now().Add(questionTTL)})
	return o
}

// digest identifies the request that a state belongs to.
func (c *Call) digest() []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, c.Arguments()) // absent arguments: nothing
	sum := sha256.Sum256([]byte(c.method + "\x00" + c.d.tool + "\x00" + b.String()))
	return sum[:]
}

// openState collects the answers of earlier rounds and of this one.
func (c *Call) openState() error {
	c.answers = fields{}
	if c.params.has("requestState") {
		r, ok := c.up.unseal(c.params.string("requestState"))
		if !ok || !hmac.Equal(r.Request, c.digest()) || time.Now().After(r.Expires) {
			return rpcErrorf(codeInvalidParams, "requestState is not valid for this request")
		}
		maps.Copy(c.answers, r.Answers)
	}
	maps.Copy(c.answers, c.params.open("inputResponses").fields)
	return nil
}

func (u *Upstream) seal(r round) string {
	raw := encode(r)
	return base64.RawURLEncoding.EncodeToString(append(u.mac(raw), raw...))
}

func (u *Upstream) unseal(s string) (round, bool) {
	var r round
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < sha256.Size || !hmac.Equal(b[:sha256.Size], u.mac(b[sha256.Size:])) {
		return r, false
	}
	return r, json.Unmarshal(b[sha256.Size:], &r) == nil
}

func (u *Upstream) mac(raw []byte) []byte {
	m := hmac.New(sha256.New, u.key)
	m.Write(raw)
	return m.Sum(nil)
}
