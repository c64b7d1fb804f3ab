package crash

import (
	"os"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

// callLimit bounds whatever a test waits for; it says nothing about the bridge.
const callLimit = 3 * time.Minute

// Environment of these tests.
const (
	fullVariable  = "CRASH_FULL"  // "1" runs the whole table and the long hammer
	seedVariable  = "CRASH_SEED"  // picks what a short run looks at
	tableVariable = "CRASH_TABLE" // file for the table, as markdown
)

func TestMain(m *testing.M) { programtest.Main(m) }

func TestSources(t *testing.T) {
	t.Parallel()
	programtest.Sources(t)
}

func program() string { return programtest.Path() }

func full() bool { return os.Getenv(fullVariable) == "1" }
