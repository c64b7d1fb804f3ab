package bridge

import (
	"strconv"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// codeURLRequired is the error with which servers of 2025-11-25 send a user to a
// URL first: elicitation, "URL Elicitation Required Error".
const codeURLRequired = -32042

// urlRequired is that error as a modern host can act on it, nil if m is another
// answer or this request does not declare URLs: one question for each URL, and
// the next round makes the call anew (2026-07-28, mrtr, "Basic Workflow").
func (x *exchange) urlRequired(m *jsonrpc.Message) [][]byte {
	code, _ := jsonrpc.Integer(m.Field(jsonrpc.Code))
	if code != codeURLRequired || x.profile.era != modernEra || x.pair.upstream != legacyEra || !x.askable() {
		return nil
	}
	data := jsonrpc.Get(m.Bytes(m.Error), "data")
	if !hasMember(data, "elicitations") {
		return nil
	}
	list, err := jsonrpc.Split(jsonrpc.Get(data, "elicitations"))
	if err != nil {
		return nil
	}
	questions := []byte{'{'}
	for i, params := range list[:min(len(list), maxQuestions)] {
		if !isURLQuestion(params) || !x.profile.accepts("elicitation/create", params) {
			continue
		}
		questions = appendMember(questions, "url"+strconv.Itoa(i+1),
			concat(`{"method":"elicitation/create","params":`, jsonrpc.Without(params, "elicitationId"), `}`))
	}
	if len(questions) == 1 {
		return nil
	}
	return resultLine(x.id, concat(`{"resultType":"input_required","inputRequests":`, append(questions, '}'), `}`))
}
