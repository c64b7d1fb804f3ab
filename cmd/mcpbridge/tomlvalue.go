package main

import (
	"slices"
	"strconv"
)

// A place is where a value of config.toml stands, as a person finds it.
type place struct{ key, file string }

// at is the place of a key below p.
func (p place) at(key string) place {
	if p.key != "" {
		key = p.key + "." + key
	}
	return place{key, p.file}
}

func (p place) String() string { return p.key + " in " + p.file }

// tomlTexts writes a TOML value as the text that a flag would have.
func tomlTexts(s setting, v any, where place) ([]string, error) {
	if list, ok := v.([]any); ok && s.many() {
		return tomlStrings(list, where)
	}
	switch v := v.(type) {
	case string:
		if s.kind != toggle {
			return []string{v}, nil
		}
	case bool:
		if s.kind == toggle {
			return []string{strconv.FormatBool(v)}, nil
		}
	case int64:
		if s.kind == single {
			return []string{strconv.FormatInt(v, 10)}, nil
		}
	}
	switch s.kind {
	case toggle:
		return nil, configf("%s: wants true or false, without quotes", where)
	case lines, globs:
		return nil, configf("%s: wants a string or a list of strings", where)
	default:
		return nil, configf("%s: wants a string or a number", where)
	}
}

func tomlString(v any, where place) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", configf("%s: wants a string", where)
	}
	if p := placeholder(s); p != "" {
		return "", unexpandedf(where.String(), p)
	}
	return s, nil
}

func tomlStrings(list []any, where place) ([]string, error) {
	texts := make([]string, 0, len(list))
	for _, element := range list {
		text, ok := element.(string)
		if !ok {
			return nil, configf("%s: wants a list of strings", where)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func sortedKeys(table map[string]any) []string {
	keys := make([]string, 0, len(table))
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
