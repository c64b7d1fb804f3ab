package stdio

import "bytes"

// Hosts that split lines at any Unicode line end would tear a message at these
// (as UTF-8). In valid JSON the first two stand between tokens only and mean
// nothing there, the others inside strings only, where an escape means the same.
const (
	lineFeed           = "\n"
	carriageReturn     = "\r"
	nextLine           = "\xc2\x85"     // U+0085
	lineSeparator      = "\xe2\x80\xa8" // U+2028
	paragraphSeparator = "\xe2\x80\xa9" // U+2029
)

// cleanBlock fits the processor's first cache, so that looking at it several
// times costs little more than looking once.
const cleanBlock = 16 << 10

// clean returns JSON text with no line end of any kind in it: b itself if there
// is nothing to change, else a copy.
func clean(b []byte) []byte {
	for at := 0; at < len(b); at += cleanBlock {
		end := min(at+cleanBlock+len(lineSeparator)-1, len(b))
		if dirty(b[at:end]) {
			return rewrite(b, at)
		}
	}
	return b
}

func dirty(b []byte) bool {
	return bytes.IndexByte(b, lineFeed[0]) >= 0 || bytes.IndexByte(b, carriageReturn[0]) >= 0 ||
		hasEnding(b, nextLine[0]) || hasEnding(b, lineSeparator[0])
}

// hasEnding looks for a line end whose first byte is lead. Text full of other
// characters with that byte makes bytes.Index slow.
func hasEnding(b []byte, lead byte) bool {
	for {
		i := bytes.IndexByte(b, lead)
		if i < 0 {
			return false
		}
		if _, size := ending(b[i:]); size > 0 {
			return true
		}
		b = b[i+1:]
	}
}

// rewrite copies b, of which the first n bytes are clean.
func rewrite(b []byte, n int) []byte {
	size, _ := cleanSize(b)
	return appendRewritten(make([]byte, 0, size), b, n)
}

// appendClean appends b to out with no line end of any kind in it.
func appendClean(out, b []byte) []byte {
	if !dirty(b) {
		return append(out, b...)
	}
	return appendRewritten(out, b, 0)
}

func appendRewritten(out, b []byte, n int) []byte {
	out = append(out, b[:n]...)
	kept := n // what is in out already
	for i := n; i < len(b); i++ {
		escape, size := ending(b[i:])
		if size == 0 {
			continue
		}
		out = append(append(out, b[kept:i]...), escape...)
		kept = i + size
		i = kept - 1
	}
	return append(out, b[kept:]...)
}

// cleanSize is the length of clean(b). It also reports whether that is b itself.
func cleanSize(b []byte) (size int, same bool) {
	size, same = len(b), true
	for at := 0; at < len(b); at += cleanBlock {
		end := min(at+cleanBlock+len(lineSeparator)-1, len(b))
		if !dirty(b[at:end]) {
			continue
		}
		same = false
		for i := at; i < min(at+cleanBlock, len(b)); i++ {
			escape, n := ending(b[i:])
			if n > 0 {
				size += len(escape) - n
				i += n - 1
			}
		}
	}
	return size, same
}

// ending returns the size of the line end that b begins with, 0 if there is
// none, and what takes its place.
func ending(b []byte) (escape string, size int) {
	switch b[0] {
	case lineFeed[0], carriageReturn[0]:
		return "", 1
	case nextLine[0]:
		if bytes.HasPrefix(b, []byte(nextLine)) {
			return `\u0085`, len(nextLine)
		}
	case lineSeparator[0]:
		if bytes.HasPrefix(b, []byte(lineSeparator)) {
			return `\u2028`, len(lineSeparator)
		}
		if bytes.HasPrefix(b, []byte(paragraphSeparator)) {
			return `\u2029`, len(paragraphSeparator)
		}
	}
	return "", 0
}
