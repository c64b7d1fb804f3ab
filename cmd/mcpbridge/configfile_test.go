package main

import (
	"errors"
	"testing"
)

// Whatever the file holds, reading it ends, and ends in a configuration error
// or in tables; a server is either readable or the reason is known.
func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{
		"", "x = ", "[servers.a]\nurl = 'https://a/'\n", "[servers.a]\nurl = \n[servers.b]\nurl = 'https://b/'\n",
		"[servers.a]\nread = [\n[servers.b]\n", "[servers.\"a", "[[servers.a]]\n", "servers = 1", "[servers]\na = 1\n",
		"[servers.a.tools.x]\nstatus = { tool = 'y', state = '/z' }\n", "\ufeffretries = 1\n[servers.a]\n[servers.a]\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := &configFile{path: "config.toml"}
		check := func(err error) {
			var config *configError
			if err != nil && !errors.As(err, &config) {
				t.Fatalf("%v (%T) is no configuration error", err, err)
			}
		}
		if err := file.decode([]byte(text)); err != nil {
			check(err)
			return
		}
		_, err := file.defaults()
		check(err)
		for name := range file.servers {
			_, err := file.server(name)
			check(err)
		}
		for name := range file.damaged {
			if _, err := file.server(name); err == nil {
				t.Fatalf("server %q was damaged and is used", name)
			}
		}
	})
}
