// Package sse reads an event stream (text/event-stream) as the HTML Living
// Standard defines it, section 9.2.6 "Interpreting an event stream".
//
// It reports what a client that resumes streams and judges replies has to know
// beside the data: the retry field, an id on an event without data, and an
// event that the stream's end cut off. github.com/tmaxmax/go-sse reports none
// of the three to a reader that brings its own HTTP exchange: sse.Read drops
// retry and unfinished events and says only the last id seen, while its
// Connection, which knows retry, sends requests (and sends them again) itself.
//
// Data is copied once on its way into the reader's memory and once more into
// the slice that the caller gets, whatever its size and however the bytes were
// split. What is not data costs no memory beyond one buffer.
package sse
