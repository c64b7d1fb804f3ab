package classify

import (
	"net/http"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// An Expectation is what was asked, as far as it decides what a reply means.
type Expectation struct {
	Method   string // JSON-RPC method of the delivery
	ID       []byte // JSON value of the id that was sent; nil for a notification
	Protocol string // MCP revision of the delivery, such as "2026-07-28"; "" if not known yet

	OfferedTasks     bool // the request declared io.modelcontextprotocol/tasks
	UnknownExtension bool // the request declared an extension the bridge does not know
	Session          bool // the request carried an Mcp-Session-Id
	ReplyElsewhere   bool // HTTP+SSE (2024-11-05): the reply comes on the GET stream
}

// Sent is what is known of the request's way out.
type Sent uint8

const (
	MaybeSent   Sent = iota // the zero value: a byte may have been accepted
	NothingSent             // proven: no byte was written, or the peer said that it took none
)

// Ended says how the observation of one delivery ended.
type Ended uint8

const (
	Cut       Ended = iota // the connection broke before the end; the zero value
	Complete               // the body ended as its framing says
	Timeout                // a limit of ours passed
	Cancelled              // we ended it because nobody wants the answer
)

// A Stage is the step of a delivery at which it failed.
type Stage uint8

const (
	NoFailure Stage = iota
	Resolve         // DNS
	Connect         // TCP
	Proxy           // CONNECT refused, 407
	Handshake       // TLS, client certificate
	Refused         // HTTP/2 REFUSED_STREAM or GOAWAY below our stream
	Exchange        // after the connection was there: writing or reading
)

// A Capture is what was observed of one delivery. It is made by whoever spoke
// to the network (or read a file) and is not changed afterwards.
type Capture struct {
	Sent   Sent
	Failed Stage
	Detail string // one line for people about the failure, without secrets

	Status int // 0: no response head arrived
	Header http.Header
	Body   []byte // what arrived of a body that is not an event stream

	// Of an event stream, the events that may be the reply, in order: responses
	// and what is no JSON-RPC message. Requests and notifications are counted
	// in Events only.
	Replies []jsonrpc.Message
	Broken  []Event // events that are no JSON-RPC message (the first 8)
	Events  int     // events with data seen, of any kind

	Ended    Ended
	Received time.Time // when the head arrived; for Retry-After as an HTTP date
}

// An Event is the data of an event that could not be read, and why.
type Event struct {
	Data []byte
	Err  error
}
