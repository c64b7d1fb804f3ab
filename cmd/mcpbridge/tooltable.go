package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/retry"
)

// toolTables reads [servers.NAME.tools."GLOB"]. Tables have no order in TOML,
// so that the most specific glob comes first: a name before a pattern, more
// letters before fewer.
func toolTables(v any, where string) ([]toolOptions, error) {
	tables, ok := v.(map[string]any)
	if !ok {
		return nil, configf("%s: wants tables such as [servers.NAME.tools.\"get_*\"]", where)
	}
	var tools []toolOptions
	for _, glob := range sortedKeys(tables) {
		t, err := toolTable(glob, tables[glob], where+"."+glob)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	slices.SortStableFunc(tools, func(a, b toolOptions) int {
		return cmp.Or(cmp.Compare(wildcards(a.glob), wildcards(b.glob)), cmp.Compare(letters(b.glob), letters(a.glob)))
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
		{"answer_within", func(t *toolOptions, v string) error { return parseAnswerWithin(&t.answerWithin, v) }},
		{"on_cancel", func(t *toolOptions, v string) error {
			t.onCancel = bridge.CancelChoice(v)
			return checkOneOf(v, string(bridge.CancelAuto), string(bridge.CancelForward))
		}},
		{"idempotency_key", func(t *toolOptions, v string) error {
			t.idempotencyKey = v
			return checkPointer(v)
		}},
		{"store", choice(func(t *toolOptions) *string { return &t.store }, "full", "open", "none")},
		{"guard", choice(func(t *toolOptions) *string { return &t.guard }, "arguments", "tool", "off")},
		{"resolve", choice(func(t *toolOptions) *string { return &t.resolve }, "user", "model")},
	}
}

func choice(field func(*toolOptions) *string, values ...string) func(*toolOptions, string) error {
	return func(t *toolOptions, v string) error {
		*field(t) = v
		return checkOneOf(v, values...)
	}
}

func toolTable(glob string, v any, where string) (toolOptions, error) {
	t := toolOptions{glob: glob}
	table, ok := v.(map[string]any)
	if !ok {
		return t, configf("%s: wants a table", where)
	}
	if err := retry.CheckGlob(glob); err != nil {
		return t, configf("%s: %v", where, err)
	}
	for _, key := range sortedKeys(table) {
		if err := t.set(key, table[key], where+"."+key); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *toolOptions) set(key string, v any, where string) (err error) {
	if key == "status" {
		t.status, err = statusTable(v, where)
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
func statusTable(v any, where string) (*statusOptions, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return nil, configf("%s: wants a table such as { tool = \"get_export\", state = \"/structuredContent/status\" }", where)
	}
	s := &statusOptions{}
	for _, key := range sortedKeys(table) {
		if err := s.set(key, table[key], where+"."+key); err != nil {
			return nil, err
		}
	}
	switch {
	case s.tool == "":
		return nil, configf("%s.tool: missing: name the tool that tells the state", where)
	case s.state == "":
		return nil, configf("%s.state: missing: write where the state stands in the result, such as /structuredContent/status", where)
	}
	return s, nil
}

func (s *statusOptions) set(key string, v any, where string) (err error) {
	switch key {
	case "tool":
		s.tool, err = tomlString(v, where)
	case "state":
		if s.state, err = tomlString(v, where); err == nil {
			err = checkPointer(s.state)
		}
	case "arguments":
		var ok bool
		if s.arguments, ok = v.(map[string]any); !ok {
			err = errors.New("wants a table")
		}
	case "settle_after":
		var text string
		if text, err = tomlString(v, where); err == nil {
			s.settleAfter, err = parseDuration(text)
		}
	case "completed", "failed", "working", "absent":
		err = s.setStates(key, v, where)
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

func (s *statusOptions) setStates(key string, v any, where string) error {
	list, ok := v.([]any)
	if !ok {
		return errors.New("wants a list of strings")
	}
	states, err := tomlStrings(list, where)
	switch key {
	case "completed":
		s.completed = states
	case "failed":
		s.failed = states
	case "working":
		s.working = states
	case "absent":
		s.absent = states
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
