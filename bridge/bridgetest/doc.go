// Package bridgetest is a real MCP server on loopback that injects faults and
// keeps a ledger of effects, with a host driver and a TCP proxy to go with it.
//
// The Upstream speaks every revision from 2024-11-05 to 2026-07-28. Its tools
// have effects that are written into a Ledger and nowhere else, so that a test
// (or a person at `mcpbridge upstream`) can compare what a bridge says about a
// call with what happened. Faults are named, matched to requests and bounded in
// number; between two faults the server keeps to the specification strictly.
//
// One request takes this path:
//
//	listener -> conn (may be cut) -> delivery (ledger, faults) -> modern | legacy | HTTP+SSE
//	         -> Call (dispatch, tools, effects) -> stream -> pump -> wire (may be cut)
//
// Nothing here is safe to expose: it has no authentication of its own and the
// ledger shows request headers in full. It binds loopback unless told otherwise.
package bridgetest
