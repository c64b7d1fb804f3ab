// Package bridge carries MCP messages between one host on stdin and stdout and
// one upstream server over HTTP.
//
// The way of one message:
//
//	stdin line -> host.accept -> exchange.run -> link.ready -> upstream.deliver
//	           -> classify.Reply -> retry.Decide -> (again | exchange.conclude)
//	           -> translate -> stdout line
//
// A message is read once (classify/jsonrpc) and edited in place: what a peer
// of the same era sends is passed on byte for byte, but for its id and the
// members of _meta that belong to the bridge.
//
// Two kinds of peer meet here. The host speaks one of two dialects, decided for
// each message: legacy (MCP 2024-11-05 to 2025-11-25, an initialize handshake)
// or modern (2026-07-28 and later, everything in _meta). The upstream is
// reached through one of the dialects behind the interface upstream. What
// differs between the two is written in translate.go and nowhere else.
//
// What proves who the user is, is put around each delivery by the Credentials,
// and the bridge never sees it. A refused call has somebody sign in, once, and
// is delivered again in the one loop of exchange.deliverUntilDone; everything
// else is content with what can be renewed without a person (access.go).
//
// The host comes first: nothing upstream does or fails to do ends the process,
// and what can be answered from the catalogue is answered at once.
package bridge
