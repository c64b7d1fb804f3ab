package jsonrpc

// IDKey returns a form of a JSON value that is the same for equal ids and
// differs for different ones: 1, 1.0 and 1e0 are one id, "1" is another, and so
// are 9007199254740992 and 9007199254740993. Strings count unescaped.
func IDKey(id []byte) string {
	switch kindOf(id) {
	case '"':
		return `"` + string(unquote(id))
	case '0':
		if len(id) <= maxNumber {
			d := parseDecimal(id)
			return d.String()
		}
	}
	return string(id)
}

// SameID reports whether two JSON values are the same id. No value is the id of
// nothing: absent ids are the same as each other only.
func SameID(a, b []byte) bool {
	return string(a) == string(b) || (a != nil && b != nil && IDKey(a) == IDKey(b))
}
