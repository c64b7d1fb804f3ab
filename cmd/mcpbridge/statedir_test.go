package main

import (
	"path/filepath"
	"testing"
)

func TestStateDir(t *testing.T) {
	t.Parallel()
	home, _ := filepath.Abs("home")
	state, _ := filepath.Abs("state")
	for _, c := range []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"linux", map[string]string{"HOME": home, "PATH": "/bin"}, filepath.Join(home, ".local", "state", "mcpbridge")},
		{"linux", map[string]string{"HOME": home, "XDG_STATE_HOME": state}, filepath.Join(state, "mcpbridge")},
		{"linux", map[string]string{"HOME": home, "XDG_STATE_HOME": "state"}, filepath.Join(home, ".local", "state", "mcpbridge")},
		{"linux", nil, ""},
		{"darwin", map[string]string{"HOME": home, "XDG_STATE_HOME": state}, filepath.Join(home, "Library", "Application Support", "mcpbridge")},
		{"windows", map[string]string{"LOCALAPPDATA": home}, filepath.Join(home, "mcpbridge")},
		{"windows", map[string]string{"HOME": home}, ""},
	} {
		if got := stateDirOn(c.system, from(c.env)); got != c.want {
			t.Errorf("stateDirOn(%s, %v) = %q, want %q", c.system, c.env, got, c.want)
		}
	}
}

// from is the lookup of a process whose environment is env.
func from(env map[string]string) lookup {
	return func(name string) (string, bool) {
		text, ok := env[name]
		return text, ok
	}
}
