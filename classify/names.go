package classify

// String returns the layer as records and `classify --json` name it.
func (l Layer) String() string {
	switch l {
	case Transport:
		return "transport"
	case Protocol:
		return "protocol"
	case Interaction:
		return "interaction"
	case Application:
		return "application"
	}
	return "unknown"
}

// String returns the outcome as records and `classify --json` name it.
func (o Outcome) String() string {
	switch o {
	case Unreachable:
		return "UNREACHABLE"
	case HTTPError:
		return "HTTP_ERROR"
	case StreamIncomplete:
		return "STREAM_INCOMPLETE"
	case TimedOut:
		return "TIMEOUT"
	case MalformedJSON:
		return "MALFORMED_JSON"
	case InvalidEnvelope:
		return "INVALID_ENVELOPE"
	case InvalidToolResult:
		return "INVALID_TOOL_RESULT"
	case JSONRPCError:
		return "JSONRPC_ERROR"
	}
	return o.arrivedString()
}

// arrivedString is String for the outcomes that are no failure of the way.
func (o Outcome) arrivedString() string {
	switch o {
	case ToolError:
		return "TOOL_ERROR"
	case ToolSuccess:
		return "TOOL_SUCCESS"
	case InputRequired:
		return "INPUT_REQUIRED"
	case TaskCreated:
		return "TASK_CREATED"
	case Accepted:
		return "ACCEPTED"
	case Result:
		return "RESULT"
	}
	return "UNKNOWN"
}

// isFailure reports whether the outcome is neither a result nor a step to one.
func (o Outcome) isFailure() bool {
	switch o {
	case ToolError, ToolSuccess, InputRequired, TaskCreated, Accepted, Result:
		return false
	}
	return true
}

// String returns the effect as records and `classify --json` name it.
func (e Effect) String() string {
	switch e {
	case Possible:
		return "possible"
	case None:
		return "none"
	case Reported:
		return "reported"
	}
	return "unknown"
}

// String returns the ending as `classify --ended` spells it.
func (e Ended) String() string {
	switch e {
	case Cut:
		return "cut"
	case Complete:
		return "complete"
	case Timeout:
		return "timeout"
	case Cancelled:
		return "cancelled"
	}
	return "unknown"
}

// String names the stage in texts for people.
func (s Stage) String() string {
	switch s {
	case NoFailure:
		return "no failure"
	case Resolve:
		return "name resolution"
	case Connect:
		return "connecting"
	case Proxy:
		return "the proxy"
	case Handshake:
		return "the TLS handshake"
	case Refused:
		return "the request was refused unread"
	case Exchange:
		return "the exchange"
	}
	return "unknown"
}
