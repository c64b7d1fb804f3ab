package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// maxConfigFile bounds config.toml, in bytes.
const maxConfigFile = 1 << 20

// A configFile is a config.toml, read and not yet judged: what is wrong inside
// [servers.a] must not keep anybody from using b.
type configFile struct {
	path    string
	top     map[string]any   // everything but servers
	servers map[string]any   // by name
	damaged map[string]error // servers whose lines are no TOML
}

// defaultConfigPath is config.toml in the user's configuration directory; "" if
// the system knows none, as in a process without HOME.
func defaultConfigPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "mcpbridge", "config.toml")
}

// readConfigFile reads the file at path. A file that does not exist is an empty
// one, unless somebody asked for it by name.
func readConfigFile(path string, asked bool) (*configFile, error) {
	f := &configFile{path: path}
	if path == "" {
		return f, nil
	}
	text, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return f, nil
	}
	if err != nil {
		return f, configf("config file: %v", err)
	}
	return f, f.decode(text)
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigFile+1))
	if err == nil && len(text) > maxConfigFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxConfigFile)
	}
	return text, err
}

// decode parses the text. Where the lines of one server are no TOML, it notes
// the error for that server, blanks those lines and goes on with the rest.
func (f *configFile) decode(text []byte) error {
	f.damaged = map[string]error{}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // editors on Windows begin files with it
	for {
		var all map[string]any
		err := toml.Unmarshal(text, &all)
		if err == nil {
			return f.take(all)
		}
		bad, line, column, why := culprit(text, err)
		wrong := configf("%s:%d:%d: %s", f.path, line, column, why)
		if bad.server == "" {
			return wrong
		}
		if f.damaged[bad.server] == nil {
			f.damaged[bad.server] = wrong
		}
		text = bad.blank(text)
	}
}

func (f *configFile) take(all map[string]any) error {
	servers, ok := all["servers"].(map[string]any)
	if _, there := all["servers"]; there && !ok {
		return configf("%s: servers: wants tables such as [servers.NAME]", f.path)
	}
	delete(all, "servers")
	f.top, f.servers = all, servers
	return nil
}

// names returns the servers of the file in order.
func (f *configFile) names() []string {
	var names []string
	for name := range f.servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// defaults returns the settings that stand above the servers and hold for each
// of them.
func (f *configFile) defaults() (layer, error) {
	l := layer{}
	for _, key := range sortedKeys(f.top) {
		s, ok := settingByKey(key)
		where := place{key, f.path}
		switch {
		case !ok:
			return l, configf("%s: unknown key%s", where, didYouMean(key, append(settingKeys(), "servers")))
		case s.ofServer():
			return l, configf("%s: credentials belong to one server: move it below [servers.NAME]", where)
		}
		if err := f.add(l, s, f.top[key], where); err != nil {
			return l, err
		}
	}
	return l, nil
}

// A serverEntry is one [servers.NAME].
type serverEntry struct {
	url   string
	where place // of the url
	layer layer
	tools []toolOptions
}

// server returns what the file says of the server called name.
func (f *configFile) server(name string) (serverEntry, error) {
	table := place{"servers", f.path}.at(name)
	e := serverEntry{layer: layer{}, where: table.at("url")}
	if err := f.damaged[name]; err != nil {
		return e, err
	}
	entries, ok := f.servers[name].(map[string]any)
	if !ok {
		return e, f.unknownServer(name)
	}
	for _, key := range sortedKeys(entries) {
		if err := f.entry(&e, key, entries[key], table.at(key)); err != nil {
			return e, err
		}
	}
	if e.url == "" {
		return e, configf("%s: missing: write the address of the MCP server", e.where)
	}
	return e, nil
}

func (f *configFile) entry(e *serverEntry, key string, v any, where place) (err error) {
	switch key {
	case "url":
		e.url, err = tomlString(v, where)
		return err
	case "tools":
		e.tools, err = toolTables(v, where)
		return err
	}
	s, ok := settingByKey(key)
	if !ok {
		return configf("%s: unknown key%s", where, didYouMean(key, append(settingKeys(), "url", "tools")))
	}
	return f.add(e.layer, s, v, where)
}

func (f *configFile) unknownServer(name string) error {
	if f.path == "" {
		return configf("no server named %.80q: there is no config.toml, and no home directory to look for it; write the address, such as https://example.com/mcp", name)
	}
	if _, there := f.servers[name]; there {
		return configf("servers.%s in %s: wants a table [servers.%s]", name, f.path, name)
	}
	names := f.names()
	if len(names) == 0 {
		return configf("no server named %.80q in %s; add [servers.%s] there, or write the address, such as https://example.com/mcp", name, f.path, name)
	}
	hint := didYouMean(name, names)
	if hint == "" {
		hint = "; it has " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return configf("no server named %.80q in %s%s", name, f.path, hint)
}

// add checks the value v of s and puts it into l.
func (f *configFile) add(l layer, s setting, v any, where place) error {
	texts, err := tomlTexts(s, v, where)
	if err != nil {
		return err
	}
	val := value{texts: texts, from: fromFile, where: where.String(), base: filepath.Dir(f.path)}
	if err := s.apply(&options{}, val); err != nil {
		return err
	}
	l[s.name] = val
	return nil
}

// settingByKey finds a setting that config.toml may hold.
func settingByKey(key string) (setting, bool) {
	for _, s := range settings() {
		if s.key() == key && s.kind != once {
			return s, true
		}
	}
	return setting{}, false
}

func settingKeys() []string {
	var keys []string
	for _, s := range settings() {
		if s.kind != once {
			keys = append(keys, s.key())
		}
	}
	return keys
}
