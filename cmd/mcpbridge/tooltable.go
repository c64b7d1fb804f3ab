package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// toolTables reads [servers.NAME.tools."GLOB"]. Tables have no order in TOML,
// so that the most specific glob comes first: a name before a pattern, more
// letters before fewer.
func toolTables(v any, where place) ([]toolOptions, error) {
	tables, ok := v.(map[string]any)
	if !ok {
		return nil, configf("%s: wants tables such as [servers.NAME.tools.\"get_*\"]", where)
	}
	var tools []toolOptions
	for _, glob := range sortedKeys(tables) {
		t, err := toolTable(glob, tables[glob], where.at(glob))
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	slices.SortStableFunc(tools, func(a, b toolOptions) int {
		return cmp.Or(cmp.Compare(wildcards(a.Glob), wildcards(b.Glob)), cmp.Compare(letters(b.Glob), letters(a.Glob)))
	})
	return tools, nil
}

// wildcards is 0 for a name and 1 for a pattern.
func wildcards(glob string) int {
	if strings.ContainsAny(glob, "*?") {
		return 1
	}
	return 0
}

func letters(glob string) int { return len(glob) - strings.Count(glob, "*") - strings.Count(glob, "?") }

// A toolKey is one key of a tool's table.
type toolKey struct {
	name  string
	parse func(t *toolOptions, text string) error
}

func toolKeys() []toolKey {
	return []toolKey{
		{"class", choice(func(t *toolOptions) *string { return &t.class }, "read", "idempotent", "write")},
		{"answer_within", func(t *toolOptions, v string) error { return parseAnswerWithin(&t.AnswerWithin, v) }},
		{"on_cancel", func(t *toolOptions, v string) error {
			t.OnCancel = bridge.CancelChoice(v)
			return checkOneOf(v, string(bridge.CancelAuto), string(bridge.CancelForward))
		}},
		{"idempotency_key", func(t *toolOptions, v string) error {
			t.IdempotencyKey = v
			return checkPointer(v)
		}},
		{"store", func(t *toolOptions, v string) error {
			t.Store = new(jobs.StoreMode)
			return parseStore(t.Store, v)
		}},
		{"guard", func(t *toolOptions, v string) error {
			if t.Guard.UnmarshalText([]byte(v)) != nil {
				return errors.New("wants arguments, tool or off")
			}
			return nil
		}},
		{"resolve", choice(func(t *toolOptions) *string { return &t.Resolve }, "user", "model")},
	}
}

func parseStore(to *jobs.StoreMode, v string) error {
	if to.UnmarshalText([]byte(v)) != nil {
		return errors.New("wants full, open or none")
	}
	return nil
}

func choice(field func(*toolOptions) *string, values ...string) func(*toolOptions, string) error {
	return func(t *toolOptions, v string) error {
		*field(t) = v
		return checkOneOf(v, values...)
	}
}

func toolTable(glob string, v any, where place) (toolOptions, error) {
	t := toolOptions{ToolConfig: bridge.ToolConfig{Glob: glob}}
	table, ok := v.(map[string]any)
	if !ok {
		return t, configf("%s: wants a table", where)
	}
	if err := retry.CheckGlob(glob); err != nil {
		return t, configf("%s: %v", where, err)
	}
	for _, key := range sortedKeys(table) {
		if err := t.set(key, table[key], where.at(key)); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *toolOptions) set(key string, v any, where place) (err error) {
	if key == "status" {
		t.Status, err = statusTable(v, where)
		return err
	}
	known := []string{"status"}
	for _, k := range toolKeys() {
		if k.name != key {
			known = append(known, k.name)
			continue
		}
		text, err := tomlString(v, where)
		if err != nil {
			return err
		}
		if err := k.parse(t, text); err != nil {
			return configf("%s: %v", where, err)
		}
		return nil
	}
	return configf("%s: unknown key%s", where, didYouMean(key, known))
}

// statusTable reads the table that says how to learn what became of a call.
func statusTable(v any, where place) (*bridge.StatusConfig, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return nil, configf("%s: wants a table such as { tool = \"get_export\", state = \"/structuredContent/status\" }", where)
	}
	s := &bridge.StatusConfig{}
	for _, key := range sortedKeys(table) {
		if err := setStatus(s, key, table[key], where.at(key)); err != nil {
			return nil, err
		}
	}
	switch {
	case s.Tool == "":
		return nil, configf("%s: missing: name the tool that tells the state", where.at("tool"))
	case s.State == "":
		return nil, configf("%s: missing: write where the state stands in the result, such as /structuredContent/status", where.at("state"))
	}
	return s, nil
}

func setStatus(s *bridge.StatusConfig, key string, v any, where place) (err error) {
	switch key {
	case "tool":
		s.Tool, err = tomlString(v, where)
	case "state":
		if s.State, err = tomlString(v, where); err == nil {
			err = checkPointer(s.State)
		}
	case "arguments":
		var ok bool
		if s.Arguments, ok = v.(map[string]any); !ok {
			err = errors.New("wants a table")
		}
	case "settle_after":
		var text string
		if text, err = tomlString(v, where); err == nil {
			s.SettleAfter, err = parseDuration(text)
		}
	case "completed", "failed", "working", "absent":
		err = setStates(s, key, v, where)
	default:
		known := []string{"tool", "arguments", "state", "completed", "failed", "working", "absent", "settle_after"}
		err = configf("%s: unknown key%s", where, didYouMean(key, known))
	}
	var config *configError
	if err != nil && !errors.As(err, &config) {
		err = configf("%s: %v", where, err)
	}
	return err
}

func setStates(s *bridge.StatusConfig, key string, v any, where place) error {
	list, ok := v.([]any)
	if !ok {
		return errors.New("wants a list of strings")
	}
	states, err := tomlStrings(list, where)
	switch key {
	case "completed":
		s.Completed = states
	case "failed":
		s.Failed = states
	case "working":
		s.Working = states
	case "absent":
		s.Absent = states
	}
	return err
}

// checkPointer checks that s is a JSON pointer (RFC 6901) to something inside
// a value.
func checkPointer(s string) error {
	escapes := strings.NewReplacer("~0", "", "~1", "").Replace(s)
	if !strings.HasPrefix(s, "/") || strings.Contains(escapes, "~") {
		return errors.New("wants a JSON pointer, such as /requestId")
	}
	return nil
}
