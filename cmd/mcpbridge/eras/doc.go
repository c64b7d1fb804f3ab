// Package eras proves, through the program itself, what the bridge does where
// revisions of MCP meet: hosts of 2024-11-05 to 2026-07-28 in front of servers
// of either era.
//
// TestMatrix runs every feature of the protocol for every pair and can print
// what it saw as a table. The other tests pin the rules by which messages are
// translated, answered or refused, one by one, and what happens when a server
// breaks them.
package eras
