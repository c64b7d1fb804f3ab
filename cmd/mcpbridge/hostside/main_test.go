package hostside

import (
	"flag"
	"testing"

	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("10") // most of these tests wait for the clock
	}
	programtest.Main(m)
}

func TestSources(t *testing.T) {
	t.Parallel()
	programtest.Sources(t)
}

func program() string { return programtest.Path() }
