package eras

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }

func TestSources(t *testing.T) {
	t.Parallel()
	programtest.Sources(t)
}

func program() string { return programtest.Path() }
