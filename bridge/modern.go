package bridge

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// modern is an upstream of 2026-07-28 or later: no handshake, no session,
// everything in the request.
type modern struct {
	endpoint *endpoint
	revision string // the one both sides know
}

func (u *modern) era() era                                 { return modernEra }
func (u *modern) version(*profile) string                  { return u.revision }
func (u *modern) prepare(context.Context, *profile) *reply { return nil }
func (u *modern) renew(*delivery)                          {}
func (u *modern) close(context.Context)                    {}
func (u *modern) cancel(*delivery, string)                 {} // closing the stream says it
func (u *modern) resume(ctx context.Context, d *delivery, r *reply, s sink) *reply {
	return r // 2026-07-28, Streamable HTTP: streams are not resumable
}

func (u *modern) deliver(ctx context.Context, d *delivery, s sink) *reply {
	body := pair{host: d.profile.era, upstream: modernEra}.request(d.msg, d.id, u.patch(d))
	h, err := u.headers(d)
	expect := d.expectation(u.revision)
	expect.OfferedTasks, expect.UnknownExtension = extensions(d.profile.capabilities)
	expect.OfferedTasks = expect.OfferedTasks || d.tasks
	if err != nil {
		return refusedHere(expect, err)
	}
	u.endpoint.deadlineHeader(h, d)
	return u.endpoint.send(ctx, &wire.Request{Method: http.MethodPost, Header: h, Body: body, Write: d.write}, expect, s)
}

// patch says what params._meta needs toward a modern upstream.
func (u *modern) patch(d *delivery) metaPatch {
	p := metaPatch{drop: ours}
	if d.profile.era == legacyEra {
		p.set = append(p.set,
			member{metaVersion, quote(u.revision)},
			member{metaClientInfo, d.profile.clientInfo},
			member{metaCapabilities, mayAsk(d)})
		if d.level != "" {
			p.set = append(p.set, member{metaLogLevel, quote(d.level)})
		}
	} else {
		if d.profile.version != u.revision {
			p.set = append(p.set, member{metaVersion, quote(u.revision)})
		}
		if offered, _ := extensions(d.profile.capabilities); d.tasks && !offered {
			meta := d.msg.Field(jsonrpc.Meta)
			p.set = append(p.set, member{metaCapabilities, withTasks(objectOr(jsonrpc.Get(meta, metaCapabilities), "{}"))})
		}
	}
	return d.common(p)
}

// common adds what every upstream gets: a progress token of ours and a trace.
func (d *delivery) common(p metaPatch) metaPatch {
	if d.token {
		p.set = append(p.set, member{metaProgressToken, idJSON(d.id)})
	}
	if d.trace != "" {
		p.set = append(p.set, member{metaTraceparent, quote(d.trace)})
	}
	return p
}

// mayAsk is what a modern server may ask of a legacy host: what the host
// declared and no more, and nothing in requests of the bridge's own, behind
// which nobody could be asked.
func mayAsk(d *delivery) []byte {
	if d.own {
		return withoutQuestions(d.profile.capabilities)
	}
	if d.tasks {
		return d.profile.questionsTasks
	}
	return d.profile.questions
}

// withTasks offers the tasks extension, which the bridge drives itself.
func withTasks(capabilities []byte) []byte {
	ext := objectOr(jsonrpc.Get(capabilities, "extensions"), "{}")
	return jsonrpc.With(capabilities, "extensions", jsonrpc.With(ext, tasksExtension, []byte("{}")))
}

// withoutQuestions takes out of capabilities what would let a server ask.
func withoutQuestions(capabilities []byte) []byte {
	return jsonrpc.Without(capabilities, "elicitation", "sampling", "roots", "tasks")
}

// headers are the request metadata headers, computed from what is sent.
func (u *modern) headers(d *delivery) (http.Header, error) {
	h := header(hdrContentType, contentJSON, hdrAccept, acceptBoth, hdrVersion, u.revision, hdrMethod, headerValue(d.method))
	if d.name != "" {
		h[hdrName] = []string{headerValue(d.name)}
	}
	if d.tool != nil && len(d.tool.headers) > 0 {
		if err := setParamHeaders(h, d.tool.headers, d.msg.Field(jsonrpc.Arguments)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// refusedHere is the reply of a request that cannot be sent as it is.
func refusedHere(expect classify.Expectation, err error) *reply {
	return &reply{expect: expect, endedBy: byBridge, connecting: "not sent", local: true,
		capture: classify.Capture{Sent: classify.NothingSent, Failed: classify.Connect, Detail: err.Error()}}
}

// extensions reads from client capabilities whether tasks were offered, and
// whether there is an extension that the bridge does not know.
func extensions(capabilities []byte) (tasks, unknown bool) {
	ext := jsonrpc.Get(capabilities, "extensions")
	if len(ext) == 0 || ext[0] != '{' {
		return false, false
	}
	for name := range jsonrpc.Members(ext) {
		if name == tasksExtension {
			tasks = true
		} else {
			unknown = true
		}
	}
	return tasks, unknown
}

func (u *modern) notify(ctx context.Context, p *profile, m *jsonrpc.Message) error {
	d := &delivery{msg: m, method: m.Method, profile: p}
	body := pair{host: p.era, upstream: modernEra}.request(m, 0, u.patch(d))
	h, _ := u.headers(d)
	r := u.endpoint.sendOwn(ctx, &wire.Request{Method: http.MethodPost, Header: h, Body: body}, d.expectation(u.revision), deaf{})
	defer r.done()
	r.judge()
	if r.verdict.Outcome != classify.Accepted {
		return fmt.Errorf("notification %s: %s", m.Method, r.verdict.Why)
	}
	return nil
}

// deaf is a sink for answers that have no stream worth hearing.
type deaf struct{}

func (deaf) notification(*jsonrpc.Message) {}

func (deaf) request(m *jsonrpc.Message, respond func(_, _ []byte)) {
	if respond != nil {
		respond(defaultAnswer(m.Method))
	}
}

// deliveryName is the value that Mcp-Name mirrors: params.name of tools/call
// and prompts/get, params.uri of resources/read, params.taskId of tasks/*.
func deliveryName(m *jsonrpc.Message) string {
	key := jsonrpc.Name
	switch {
	case m.Method == "resources/read":
		key = jsonrpc.URI
	case strings.HasPrefix(m.Method, "tasks/"):
		key = jsonrpc.TaskID
	case m.Method != "tools/call" && m.Method != "prompts/get":
		return ""
	}
	name, _ := jsonrpc.String(m.Field(key))
	return name
}
