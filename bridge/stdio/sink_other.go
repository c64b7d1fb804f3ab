//go:build !unix

package stdio

func newSink(f File) sink { return blockingSink{f} }
