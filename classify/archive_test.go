package classify_test

import (
	"bytes"
	"os"
)

// An archive is a txtar file: a comment, then parts that each begin with a line
// "-- name --".
type archive struct {
	comment []byte
	parts   []part
}

type part struct {
	name string
	data []byte
}

func readArchive(path string) (*archive, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := &archive{}
	into := &a.comment
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimRight(line, "\n")
		name, isMark := bytes.CutPrefix(trimmed, []byte("-- "))
		name, ends := bytes.CutSuffix(name, []byte(" --"))
		if isMark && ends {
			a.parts = append(a.parts, part{name: string(name)})
			into = &a.parts[len(a.parts)-1].data
			continue
		}
		*into = append(*into, line...)
	}
	return a, nil
}

// part returns the part of that name, nil if there is none.
func (a *archive) part(name string) *part {
	for i := range a.parts {
		if a.parts[i].name == name {
			return &a.parts[i]
		}
	}
	return nil
}

func (a *archive) write(path string) error {
	text := bytes.Clone(a.comment)
	for _, p := range a.parts {
		text = append(text, "-- "+p.name+" --\n"...)
		text = append(text, p.data...)
	}
	return os.WriteFile(path, text, 0o644)
}
