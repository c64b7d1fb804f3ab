// Package authtest is an authorization server and a protected MCP endpoint on
// loopback, for tests. By default it does everything right; each quirk is a
// switch. It keeps a ledger of what it was asked, which is the ground truth of
// the tests.
package authtest
