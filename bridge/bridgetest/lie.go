package bridgetest

import (
	"bytes"
	"encoding/json"
)

// twist applies the faults that change the bytes of a reply.
func (d *delivery) twist(reply []byte) []byte {
	for _, s := range d.strikes {
		reply = twist(s.name, reply, d.msg.ID)
	}
	return reply
}

func twist(fault string, reply []byte, id json.RawMessage) []byte {
	switch fault {
	case "malformed":
		return bytes.Replace(reply, []byte(`"jsonrpc":`), []byte(`"jsonrpc"=`), 1)
	case "truncated-json":
		return reply[:len(reply)*2/3]
	case "wrong-id":
		return replaceID(reply, id, `"id":"of another request"`)
	case "null-id":
		return replaceID(reply, id, `"id":null`)
	case "no-id":
		return bytes.Replace(replaceID(reply, id, ""), []byte(`"2.0",,`), []byte(`"2.0",`), 1)
	case "both":
		return addMember(reply, `"error":{"code":-32603,"message":"and failed as well"}`)
	case "not-2.0":
		return bytes.Replace(reply, []byte(`"jsonrpc":"2.0"`), []byte(`"jsonrpc":"1.0"`), 1)
	case "duplicate-names":
		return addMember(reply, `"result":{"content":[{"type":"text","text":"the other result"}]}`)
	case "batch":
		return append(append([]byte{'['}, reply...), ']')
	case "bad-error":
		return replaceOutcome(reply, `"error":"it went wrong"`)
	case "bad-content":
		return setResult(reply, "content", `"not an array"`)
	case "bad-is-error":
		return setResult(reply, "isError", `"no"`)
	case "unknown-result-type":
		return setResult(reply, "resultType", `"postponed"`)
	}
	return reply
}

func replaceID(reply []byte, id json.RawMessage, with string) []byte {
	return bytes.Replace(reply, append([]byte(`"id":`), id...), []byte(with), 1)
}

func addMember(reply []byte, m string) []byte {
	return append(append(bytes.TrimSuffix(reply, []byte("}")), ","+m...), '}')
}

// replaceOutcome puts m in place of result or error.
func replaceOutcome(reply []byte, m string) []byte {
	id := open(reply).fields["id"]
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + "," + m + "}")
}

// setResult sets one member of the result.
func setResult(reply []byte, name, value string) []byte {
	f := open(reply)
	result := f.open("result").fields
	if result == nil {
		return reply
	}
	result[name] = json.RawMessage(value)
	return encodeResult(f.fields["id"], result)
}
