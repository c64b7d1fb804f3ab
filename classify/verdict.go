package classify

import (
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A Layer is where the outcome was decided.
type Layer uint8

const (
	Transport Layer = iota
	Protocol
	Interaction
	Application
)

// An Outcome is the one thing that a reply is.
type Outcome uint8

const (
	Unreachable       Outcome = iota // no request left: DNS, connect, proxy, TLS
	HTTPError                        // a status outside 2xx
	StreamIncomplete                 // ended before the terminal reply
	TimedOut                         // a limit of ours passed first
	MalformedJSON                    // a 2xx body that does not parse
	InvalidEnvelope                  // JSON, but not the one JSON-RPC response
	InvalidToolResult                // a response whose result is no tool result
	JSONRPCError                     // a JSON-RPC error
	ToolError                        // a tool result with isError
	ToolSuccess                      // a tool result
	InputRequired                    // MRTR: the server wants input first
	TaskCreated                      // a task handle, where tasks were offered
	Accepted                         // 202 to a notification
	Result                           // the result of any other method
)

// An Effect is what may be said about side effects upstream.
type Effect uint8

const (
	Possible Effect = iota // the zero value: what we do not know, we do not deny
	None                   // proven: nothing was written, or it was refused unread
	Reported               // a tool result says so
)

// An RPCError is the error object of a JSON-RPC response.
type RPCError struct {
	Code    int64
	Message string
	Data    []byte // JSON value, nil if absent
}

// A Verdict says what a reply is and what it proves.
type Verdict struct {
	Layer      Layer
	Outcome    Outcome
	Effect     Effect
	Status     int
	RPCError   *RPCError      // also of a body below a status outside 2xx
	RetryAfter *time.Duration // how long the server asked us to wait
	ResultType string         // "complete" where a result left it out
	Why        string         // one line

	SessionLost bool            // the session is gone; Effect says whether the request was refused unread
	Reply       jsonrpc.Message // the response that was judged; zero if there was none
}
