package bridge

import (
	"strconv"
)

// JSON-RPC error codes. Those of the bridge stand outside the ranges that
// JSON-RPC and MCP reserve; their names are public interface.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeMethodNotFound = -32601
	codeInternal       = -32603
	codeBadVersion     = -32022

	codeMissingCapability = -32021

	codeUnreachable  = -31001
	codeUnknown      = -31002 // outcome unknown
	codeKeyConflict  = -31003 // idempotency key conflict
	codeInvalidReply = -31004 // invalid upstream reply
	codeSignIn       = -31005 // sign-in needed
	codeOverloaded   = -31007
	codeJournal      = -31008 // journal unavailable
	codeCancelled    = -31009
	codeTimedOut     = -31010
)

// bridgeCode reports whether a code is one of the bridge's own.
func bridgeCode(code int) bool { return code <= codeUnreachable && code >= codeTimedOut }

// rpcErrorLine is a JSON-RPC error response. data is JSON, nil for none.
func rpcErrorLine(id []byte, code int, message string, data []byte) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	line := concat(`{"jsonrpc":"2.0","id":`, id, `,"error":{"code":`, strconv.Itoa(code), `,"message":`, quote(message))
	if data != nil {
		line = concat(line, `,"data":`, data)
	}
	return append(line, "}}"...)
}

// resultLine is a JSON-RPC response with a result.
func resultLine(id, result []byte) [][]byte {
	return [][]byte{[]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), result, []byte("}")}
}
