// Package interop proves that hosts and servers of others work with each other
// through the program itself: each test starts the built mcpbridge on pipes, in
// front of it a client that is not ours, behind it a server.
//
// Every host meets every upstream, and each pair goes through the same features.
// node/ holds the same for the packages of the official TypeScript SDK, and
// conformance.txt what the conformance suite is known to say.
package interop

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }

func TestSources(t *testing.T) {
	t.Parallel()
	programtest.Sources(t)
}
