// Package faults holds tests that break the path between a host and its server
// in every way they know, with the real program in between, and compare what
// the host is told with what the server's ledger says happened.
//
//	host driver -> mcpbridge (a process) -> [door | proxy] -> bridgetest.Upstream with a fault
//
// What must come out is stated once, by rule, from facts about the fault
// (rule_test.go), and never copied from a run. The run also writes the table of
// faults that README.md shows.
package faults
