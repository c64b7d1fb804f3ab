// Mcpbridge is a sidecar that an MCP host starts as a stdio server. It forwards
// to one remote MCP server over HTTP.
//
// This package holds flags, configuration and wiring; what happens to a message
// is decided in package bridge. Each subcommand has its own file. A command
// gets a context, its arguments and the three streams, and returns an error
// that run turns into the exit code: nothing but main ends the process.
//
// Output follows one rule: data goes to standard output, everything said about
// it to standard error, behind "mcpbridge:", in one line, in lower case.
package main
