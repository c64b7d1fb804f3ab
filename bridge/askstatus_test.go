package bridge

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// A list of calls whose status tool does not answer comes within the host's
// patience all the same, with every call as it was: one query after the other
// would take four times the limit of each.
func TestListDoesNotWaitForStatusTools(t *testing.T) {
	t.Parallel()
	asked, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	u := serve(t, func(method string) (int, string) {
		const head = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete",`
		switch method {
		case "server/discover":
			return http.StatusOK, head + `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`
		case "tools/list":
			return http.StatusOK, head + `"tools":[{"name":"get_export","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}`
		case "tools/call":
			once.Do(func() { close(asked) })
			<-end
		}
		return http.StatusNotFound, ""
	})
	t.Cleanup(func() { close(end) })
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	j := jobs.New(s, jobs.Options{})
	status := &StatusConfig{Tool: "get_export", State: "/structuredContent/status", Completed: []string{"done"}}
	p := startInProcess(t, Config{URL: u, Server: "crm", Jobs: j, Drain: time.Nanosecond, AnswerWithin: 2 * time.Second,
		Tools: []ToolConfig{{Glob: "start_export", Status: status}}})
	const calls = 4
	for n := range calls {
		b, err := j.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "crm", Principal: auth.Anonymous}, Tool: "start_export",
			Arguments: fmt.Appendf(nil, `{"n":%d}`, n)})
		if err == nil {
			_, err = j.Finish(t.Context(), b.Job.Handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: "timeout"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.initialize()
	text := string(p.call("tools/call", `{"name":"mcpbridge_job","arguments":{}}`).Raw)
	if n := strings.Count(text, `"state":"outcome_unknown"`); n != calls {
		t.Errorf("%d calls are named: %s", n, text)
	}
	select {
	case <-asked:
	default:
		t.Error("the status tool was not asked")
	}
}
