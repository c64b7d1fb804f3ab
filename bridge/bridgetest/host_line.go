package bridgetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// checkLine reads one line of stdout as one JSON-RPC message: strict JSON
// (valid UTF-8, no duplicate names), an object, no separators that hosts split
// lines at.
func checkLine(line []byte, whole bool) (message, error) {
	if !whole {
		return message{}, errors.New("last line has no line end")
	}
	if bytes.ContainsAny(line, "\r\u2028\u2029") {
		return message{}, errors.New("line holds a raw line separator")
	}
	if err := strict(line); err != nil {
		return message{}, err
	}
	m, err := parseMessage(line)
	if err != nil && !isNullIDError(line) {
		return m, err
	}
	if m.Method == "" && (m.Result == nil) == (m.Error == nil) {
		return m, errors.New("response has not exactly one of result and error")
	}
	return m, nil
}

func strict(line []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(line))
	v, err := d.ReadValue()
	if err != nil {
		return fmt.Errorf("line is no JSON: %w", err)
	}
	if v.Kind() != '{' {
		return errors.New("line is no JSON object")
	}
	if len(bytes.TrimSpace(line[d.InputOffset():])) > 0 {
		return errors.New("line holds more than one value")
	}
	return nil
}

// isNullIDError: an error for a message whose id could not be read has the id
// null (JSON-RPC 2.0 section 5).
func isNullIDError(line []byte) bool {
	f := open(line)
	return string(f.fields["id"]) == "null" && f.has("error")
}
