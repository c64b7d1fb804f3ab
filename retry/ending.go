package retry

import (
	"net/http"

	"github.com/mcpbridge/mcpbridge/classify"
)

// An Ending is what is said of a call that is not delivered again.
type Ending uint8

const (
	Unknown    Ending = iota // it may have had its effect; the zero value
	Completed                // it was answered with a result
	Failed                   // it was answered with an error, or it had no effect; the verdict's effect says which
	Unanswered               // a read without an answer: nothing can have happened
)

// String names the ending in records.
func (e Ending) String() string {
	switch e {
	case Unknown:
		return "unknown"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	case Unanswered:
		return "unanswered"
	}
	return "unknown"
}

// Settle says how a call of a class ends with its last verdict. A verdict that
// is no end (input required, a task) is unknown for whoever gives up there.
//
// Moot says that the last delivery had no effect, but one before it may have had:
// its refusal then says nothing about the call.
func Settle(v classify.Verdict, c Class, moot bool) Ending {
	switch v.Outcome {
	case classify.ToolSuccess, classify.ToolError, classify.Result, classify.Accepted:
		return Completed
	}
	switch {
	case moot && c == Read:
		return Unanswered
	case moot:
		return Unknown
	case v.Outcome == classify.JSONRPCError:
		return Failed
	case v.Effect == classify.None:
		return Failed
	case v.Outcome == classify.HTTPError && v.Status/100 == 4 && v.Status != http.StatusRequestTimeout:
		return Failed
	case c == Read:
		return Unanswered
	}
	return Unknown
}
