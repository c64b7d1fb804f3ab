package jsonrpc

// keyOf maps the name of a member of params, result or error to its Key. Names
// are case-sensitive, as in JSON.
func keyOf(name []byte) (Key, bool) {
	switch string(name) { // the compiler does not allocate for this
	case "_meta":
		return Meta, true
	case "name":
		return Name, true
	case "uri":
		return URI, true
	case "arguments":
		return Arguments, true
	case "protocolVersion":
		return ProtocolVersion, true
	case "capabilities":
		return Capabilities, true
	case "clientInfo":
		return ClientInfo, true
	case "cursor":
		return Cursor, true
	case "level":
		return Level, true
	case "requestId":
		return RequestID, true
	case "reason":
		return Reason, true
	case "progressToken":
		return ProgressToken, true
	case "progress":
		return Progress, true
	case "inputResponses":
		return InputResponses, true
	case "requestState":
		return RequestState, true
	case "task":
		return Task, true
	case "taskId":
		return TaskID, true
	case "notifications":
		return Notifications, true
	}
	return resultKeyOf(name)
}

// resultKeyOf is the second half of keyOf: the members of results and errors.
func resultKeyOf(name []byte) (Key, bool) {
	switch string(name) {
	case "resultType":
		return ResultType, true
	case "isError":
		return IsError, true
	case "content":
		return Content, true
	case "structuredContent":
		return StructuredContent, true
	case "inputRequests":
		return InputRequests, true
	case "nextCursor":
		return NextCursor, true
	case "tools":
		return Tools, true
	case "resources":
		return Resources, true
	case "resourceTemplates":
		return ResourceTemplates, true
	case "prompts":
		return Prompts, true
	case "ttlMs":
		return TTLMs, true
	case "cacheScope":
		return CacheScope, true
	case "supportedVersions":
		return SupportedVersions, true
	case "serverInfo":
		return ServerInfo, true
	case "instructions":
		return Instructions, true
	case "code":
		return Code, true
	case "message":
		return Text, true
	case "data":
		return Data, true
	}
	return 0, false
}
