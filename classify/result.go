package classify

import (
	"fmt"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

const (
	typeComplete      = "complete"
	typeInputRequired = "input_required"
	typeTask          = "task"
)

// judgeMessage judges the response that answers the request.
func judgeMessage(e *Expectation, m *jsonrpc.Message) Verdict {
	v := judgeResponse(e, m)
	v.Reply = *m
	return v
}

func judgeResponse(e *Expectation, m *jsonrpc.Message) Verdict {
	if rpc := errorOf(m); rpc != nil {
		why := fmt.Sprintf("JSON-RPC error %d %s", rpc.Code, shorten(rpc.Message, maxQuoted))
		return Verdict{Layer: Protocol, Outcome: JSONRPCError, RPCError: rpc, Why: why}
	}
	if e.Method == "tools/call" {
		return judgeToolResult(e, m)
	}
	return judgeOtherResult(e, m)
}

// judgeToolResult judges the result of a tools/call.
func judgeToolResult(e *Expectation, m *jsonrpc.Message) Verdict {
	if !isKind(m.Bytes(m.Result), '{') {
		return invalidResult("", "the result is not an object")
	}
	kind, ok := resultType(m)
	if !ok {
		return invalidResult("", `"resultType" is not a string`)
	}
	switch {
	case kind == typeInputRequired:
		return judgeQuestion(m, InvalidToolResult)
	case e.OfferedTasks && (kind == typeTask || isLegacyTask(e, m)):
		return judgeTask(m)
	case kind == typeComplete:
		return judgeComplete(m)
	case e.UnknownExtension && kind != typeTask:
		// 2026-07-28, basic, "Result Types": an extension may add values; who
		// declared it knows what they mean.
		return Verdict{Layer: Application, Outcome: Result, ResultType: kind, Why: "a result of a type that an extension defines"}
	}
	return invalidResult(kind, fmt.Sprintf("the result has the type %q, which was not offered", shorten(kind, 40)))
}

// resultType returns the type of a result. 2026-07-28, basic, "Result Types":
// a result without it is complete, as all results were before.
func resultType(m *jsonrpc.Message) (kind string, ok bool) {
	value := m.Field(jsonrpc.ResultType)
	if value == nil {
		return typeComplete, true
	}
	return jsonrpc.String(value)
}

func judgeComplete(m *jsonrpc.Message) Verdict {
	if !isKind(m.Field(jsonrpc.Content), '[') {
		return invalidResult(typeComplete, `"content" is missing or not an array`)
	}
	isError := m.Field(jsonrpc.IsError)
	switch {
	case isError == nil || string(isError) == "false":
		return Verdict{Layer: Application, Outcome: ToolSuccess, ResultType: typeComplete, Why: "a tool result"}
	case string(isError) == "true":
		return Verdict{Layer: Application, Outcome: ToolError, ResultType: typeComplete, Why: "a tool result that says that the tool failed"}
	}
	return invalidResult(typeComplete, `"isError" is not a boolean`)
}

// judgeQuestion judges a result that asks for input (2026-07-28, basic,
// "Multi Round-Trip Requests"): one of the two members must be there.
func judgeQuestion(m *jsonrpc.Message, otherwise Outcome) Verdict {
	if isKind(m.Field(jsonrpc.InputRequests), '{') || isKind(m.Field(jsonrpc.RequestState), '"') {
		return Verdict{Layer: Interaction, Outcome: InputRequired, ResultType: typeInputRequired, Why: "the server wants input before it goes on"}
	}
	return Verdict{Layer: Protocol, Outcome: otherwise, ResultType: typeInputRequired,
		Why: `"input_required" without "inputRequests" and "requestState"`}
}

// isLegacyTask reports whether a result is the CreateTaskResult of 2025-11-25,
// which has no resultType but a member "task" in the place of the content.
func isLegacyTask(e *Expectation, m *jsonrpc.Message) bool {
	return e.Protocol == "2025-11-25" && m.Field(jsonrpc.ResultType) == nil &&
		m.Field(jsonrpc.Content) == nil && isKind(m.Field(jsonrpc.Task), '{')
}

// judgeTask demands an id, without which nothing could be asked of the task.
func judgeTask(m *jsonrpc.Message) Verdict {
	id := m.Field(jsonrpc.TaskID)
	if id == nil {
		id = jsonrpc.Get(m.Field(jsonrpc.Task), "taskId")
	}
	if !isKind(id, '"') {
		return invalidResult(typeTask, `the task has no "taskId"`)
	}
	return Verdict{Layer: Interaction, Outcome: TaskCreated, ResultType: typeTask, Why: "the server made a task of the call"}
}

// judgeOtherResult judges the result of any other method. Only two of them may
// ask for input.
func judgeOtherResult(e *Expectation, m *jsonrpc.Message) Verdict {
	v := Verdict{Layer: Application, Outcome: Result, ResultType: typeComplete, Why: "a result"}
	kind, ok := resultType(m)
	if ok {
		v.ResultType = kind
	}
	if v.ResultType == typeInputRequired && (e.Method == "prompts/get" || e.Method == "resources/read") {
		return judgeQuestion(m, InvalidEnvelope)
	}
	return v
}

func invalidResult(kind, why string) Verdict {
	return Verdict{Layer: Protocol, Outcome: InvalidToolResult, ResultType: kind, Why: why}
}

// isKind reports whether a JSON value begins with the given character.
func isKind(value []byte, first byte) bool { return len(value) > 0 && value[0] == first }
