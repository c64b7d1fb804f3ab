package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

const anywhere = "https://example.com/mcp"

// A telling is everything that a bridge can be told.
type telling struct {
	file string            // text of config.toml; "" for none
	env  map[string]string // variables
	args []string          // command line
}

// resolve reads what was told as the command does.
func (c telling) resolve(t *testing.T) (options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if c.file != "" {
		if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := program{env: from(c.env)}
	root := p.root()
	root.InitDefaultHelpFlag() // as running it does
	if err := root.ParseFlags(c.args); err != nil {
		return options{}, flagError(root, err)
	}
	return resolve(bridgeFlags(root), root.Flags().Args(), p.env, path)
}

func (c telling) mustResolve(t *testing.T) options {
	t.Helper()
	o, err := c.resolve(t)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return o
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := `
		answer_within = "1s"
		idle_timeout = "1s"
		drain = "1s"
		job_timeout = "1m"
		[servers.crm]
		url = "https://crm.example.com/mcp"
		answer_within = "2s"
		idle_timeout = "2s"
		drain = "2s"
		[servers.other]
		url = "https://other.example.com/mcp"
	`
	o := telling{
		file: file,
		env:  map[string]string{"MCPBRIDGE_IDLE_TIMEOUT": "3s", "MCPBRIDGE_DRAIN": "3s", "MCPBRIDGE_RETRIES": " "},
		args: []string{"crm", "--drain=4s"},
	}.mustResolve(t)
	got := []time.Duration{o.JobTimeout, o.AnswerWithin, o.IdleTimeout, o.Drain}
	want := []time.Duration{time.Minute, 2 * time.Second, 3 * time.Second, 4 * time.Second}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("defaults, server, variable, flag: %v, want %v", got, want)
	}
	if o.URL.String() != "https://crm.example.com/mcp" || o.Server != "crm" {
		t.Errorf("URL %v, server %q", o.URL, o.Server)
	}
	if o.Retries != 0 {
		t.Errorf("an empty variable set retries to %d", o.Retries)
	}

	byURL := telling{file: file, args: []string{anywhere}}.mustResolve(t)
	if byURL.AnswerWithin != time.Second || byURL.Server != "" {
		t.Errorf("with a URL: answer within %v, server %q", byURL.AnswerWithin, byURL.Server)
	}
}

// A value that lost is not looked at: a flag repairs a variable.
func TestOverriddenPlaceholder(t *testing.T) {
	t.Parallel()
	o := telling{env: map[string]string{"MCPBRIDGE_DRAIN": "${DRAIN}"}, args: []string{anywhere, "--drain=4s"}}.mustResolve(t)
	if o.Drain != 4*time.Second {
		t.Errorf("drain %v", o.Drain)
	}
}

func TestEverySetting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	headers := filepath.Join(dir, "headers")
	if err := os.WriteFile(headers, []byte("X-File: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	args := []string{
		anywhere, "--protocol=modern", "--transport=http", "--server-id=crm", "--principal=me",
		"--header=X-A: ${A}", "--header", "X-B:b", "--header-file=" + headers, "--bearer-env=TOKEN", "--no-cookies",
		"--allow-http", "--proxy=direct", "--ca-cert=" + in("ca"), "--client-cert=" + in("crt"), "--client-key=" + in("key"),
		"--connect-timeout=1s", "--answer-within=2s", "--idle-timeout=3s", "--job-timeout=4s", "--drain=5s",
		"--deadline-header=X-Deadline", "--retries=7", "--on-cancel=forward",
		"--journal=try", "--store=none", "--job-tools=all", "--guard-window=6s", "--linger=7s", "--input-timeout=8s",
		"--read=get_*,peek", "--write=set_*", "--ignore-tool=drop_*", "--only-tool=*", "--trust-annotations=false",
		"--max-message=1MiB", "--host-line-limit=2MiB", "--max-memory=3MiB",
		"--state-dir=" + in("state"), "--allow-network-state", "--log-level=debug", "--log-format=json", "--log-file=" + in("log"),
	}
	o := telling{env: map[string]string{"A": "a", "TOKEN": "t"}, args: args}.mustResolve(t)

	headersWant := map[string]string{"X-File": "1", "X-A": "a", "X-B": "b", "Authorization": "Bearer t"}
	for _, h := range o.Headers {
		if headersWant[h.Name] != h.Value.Reveal() {
			t.Errorf("header %s: %q", h.Name, h.Value.Reveal())
		}
	}
	if len(o.Headers) != len(headersWant) {
		t.Errorf("%d headers, want %d", len(o.Headers), len(headersWant))
	}
	got := o.Config
	got.Headers, got.URL = nil, nil
	want := bridge.Config{
		Server: "crm", Principal: "me", Protocol: bridge.EraModern, Transport: bridge.TransportHTTP,
		Proxy: "direct", CACert: in("ca"), ClientCert: in("crt"), ClientKey: in("key"), NoCookies: true,
		MaxMessage: 1 << 20, HostLineLimit: 2 << 20, MaxMemory: 3 << 20,
		ConnectTimeout: time.Second, AnswerWithin: 2 * time.Second, IdleTimeout: 3 * time.Second,
		JobTimeout: 4 * time.Second, Drain: 5 * time.Second, DeadlineHeader: "X-Deadline",
		Retries: 7, OnCancel: bridge.CancelForward, DistrustAnnotation: true,
		Classes:     []retry.Rule{{Glob: "set_*", Class: retry.Write}, {Glob: "get_*", Class: retry.Read}, {Glob: "peek", Class: retry.Read}},
		IgnoreTools: []string{"drop_*"}, OnlyTools: []string{"*"}, StateDir: in("state"),
		Journal: bridge.JournalTry, Store: jobs.StoreNone, JobTools: bridge.JobToolsAll,
		Linger: 7 * time.Second, InputTimeout: 8 * time.Second,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("config\n%+v, want\n%+v", got, want)
	}
	if log := (logOptions{level: slog.LevelDebug, json: true, file: in("log")}); o.log != log {
		t.Errorf("log %+v, want %+v", o.log, log)
	}
	if !o.allowNetworkState || !o.allowHTTP {
		t.Error("a toggle was lost")
	}
	if o.guardWindow != 6*time.Second {
		t.Errorf("guard window %v", o.guardWindow)
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	o := telling{args: []string{anywhere, "--retries=0", "--drain=0", "--answer-within=auto"}}.mustResolve(t)
	if o.Retries >= 0 {
		t.Errorf("--retries=0 would become the default: %d", o.Retries)
	}
	if o.Drain <= 0 || o.Drain > time.Millisecond {
		t.Errorf("--drain=0 would become the default: %v", o.Drain)
	}
	if o.AnswerWithin != 0 {
		t.Errorf("--answer-within=auto: %v", o.AnswerWithin)
	}
}

// Open calls outlive the host by what is left of --job-timeout, unless told
// otherwise.
func TestLinger(t *testing.T) {
	t.Parallel()
	for want, args := range map[time.Duration][]string{
		time.Hour:   {anywhere},
		time.Minute: {anywhere, "--job-timeout=1m"},
		time.Second: {anywhere, "--job-timeout=1m", "--linger=1s"},
		0:           {anywhere, "--linger=0"},
	} {
		if o := (telling{args: args}).mustResolve(t); o.Linger != want {
			t.Errorf("%q: linger %v, want %v", args, o.Linger, want)
		}
	}
}

// A list replaces that of a weaker source; in a variable it is one a line.
func TestLists(t *testing.T) {
	t.Parallel()
	file := "[servers.a]\nurl = '" + anywhere + "'\nheader = ['X-A: 1', 'X-B: 2, 3']\nread = 'x*'\nwrite = []\n"
	o := telling{file: file, args: []string{"a"}}.mustResolve(t)
	if len(o.Headers) != 2 || o.Headers[1].Value.Reveal() != "2, 3" {
		t.Errorf("headers of the file: %d", len(o.Headers))
	}
	o = telling{file: file, env: map[string]string{"MCPBRIDGE_HEADER": "X-C: 1, 2\nX-D: 3\n", "MCPBRIDGE_READ": "y, z\nw"}, args: []string{"a"}}.mustResolve(t)
	if len(o.Headers) != 2 || o.Headers[0].Name != "X-C" || o.Headers[0].Value.Reveal() != "1, 2" {
		t.Errorf("headers of the variable: %+v", o.Headers)
	}
	if want := []string{"y", "z", "w"}; !reflect.DeepEqual(o.read, want) {
		t.Errorf("read %q, want %q", o.read, want)
	}
}

func TestToolTables(t *testing.T) {
	t.Parallel()
	o := telling{args: []string{"crm", "--write=start_*"}, file: `
		[servers.crm]
		url = "` + anywhere + `"
		read = ["get_*"]
		[servers.crm.tools."*"]
		class = "write"
		[servers.crm.tools."get_*"]
		class = "read"
		on_cancel = "forward"
		[servers.crm.tools.start_export]
		class = "idempotent"
		idempotency_key = "/requestId"
		answer_within = "20s"
		store = "none"
		guard = "tool"
		resolve = "model"
		status = { tool = "get_export", arguments = { id = "{key}" }, state = "/structuredContent/status", completed = ["done"],
			failed = ["error"], working = ["queued", "running"], absent = ["not_found"], settle_after = "30s" }
	`}.mustResolve(t)
	rules := []retry.Rule{
		{Glob: "start_*", Class: retry.Write}, // the flag
		{Glob: "start_export", Class: retry.Idempotent}, {Glob: "get_*", Class: retry.Read}, {Glob: "*", Class: retry.Write},
		{Glob: "get_*", Class: retry.Read}, // read of the file
	}
	if !reflect.DeepEqual(o.Classes, rules) {
		t.Errorf("classes %v, want %v", o.Classes, rules)
	}
	none := jobs.StoreNone
	want := []bridge.ToolConfig{
		{
			Glob: "start_export", AnswerWithin: 20 * time.Second, IdempotencyKey: "/requestId",
			Store: &none, Guard: jobs.GuardTool, Resolve: "model",
			Status: &bridge.StatusConfig{
				Tool: "get_export", Arguments: map[string]any{"id": "{key}"}, State: "/structuredContent/status",
				Completed: []string{"done"}, Failed: []string{"error"}, Working: []string{"queued", "running"},
				Absent: []string{"not_found"}, SettleAfter: 30 * time.Second,
			},
		},
		{Glob: "get_*", OnCancel: bridge.CancelForward},
		{Glob: "*"},
	}
	if !reflect.DeepEqual(o.Tools, want) {
		t.Errorf("tools %+v, want %+v", o.Tools, want)
	}
}

// Usage errors end the program under a host too; they win over what else is
// wrong, and they repeat no value.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	broken := "this is no TOML"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":         {[]string{anywhere, "--answer-withn=1s"}, "did you mean --answer-within?"},
		"underscores":          {[]string{anywhere, "--answer_within=1s"}, "did you mean --answer-within?"},
		"far flag":             {[]string{anywhere, "--frobnicate"}, "unknown flag --frobnicate"},
		"one hyphen":           {[]string{anywhere, "-header", "X: 1"}, "did you mean --header?"},
		"as in curl":           {[]string{anywhere, "-HAuthorization: hunter2"}, "did you mean --header?"},
		"letter":               {[]string{anywhere, "-qhunter2"}, "unknown flag -q"},
		"value missing":        {[]string{anywhere, "--retries"}, "--retries needs a value"},
		"no server":            {[]string{"--retries=1"}, "no server given"},
		"empty server":         {[]string{" "}, "no server given"},
		"split header":         {[]string{"--header", "Authorization:", "Bearer", "hunter2", anywhere}, "split arguments"},
		"stray word":           {[]string{anywhere, "hunter2"}, "2 words"},
		"toggle with a space":  {[]string{anywhere, "--trust-annotations", "false"}, "--flag=false"},
		"scheme":               {[]string{"ftp://example.com"}, "only http and https"},
		"no scheme":            {[]string{"example.com/mcp?key=hunter2"}, "no scheme"},
		"secret in URL":        {[]string{"https://me:hunter2@example.com"}, "--bearer-env"},
		"retries":              {[]string{anywhere, "--retries=many"}, "--retries: wants a number"},
		"retries negative":     {[]string{anywhere, "--retries=-1"}, "--retries: wants a number"},
		"protocol":             {[]string{anywhere, "--protocol=2026"}, "wants auto, modern or legacy"},
		"transport":            {[]string{anywhere, "--transport=ws"}, "wants auto, http or sse"},
		"size":                 {[]string{anywhere, "--max-message=64MB"}, "--max-message: wants a size"},
		"message of nothing":   {[]string{anywhere, "--max-message=10"}, "--max-message: wants at least 1024 bytes"},
		"line of nothing":      {[]string{anywhere, "--host-line-limit=1023"}, "--host-line-limit: wants at least 1024 bytes"},
		"size of everything":   {[]string{anywhere, "--max-memory=9223372036854775807"}, "--max-memory: wants less"},
		"duration":             {[]string{anywhere, "--drain=5"}, "--drain: wants a duration"},
		"zero connect timeout": {[]string{anywhere, "--connect-timeout=0"}, "above zero"},
		"answer within":        {[]string{anywhere, "--answer-within=soon"}, "wants auto or a duration"},
		"cancel":               {[]string{anywhere, "--on-cancel=never"}, "wants auto or forward"},
		"journal":              {[]string{anywhere, "--journal=on"}, "wants required, try or off"},
		"store":                {[]string{anywhere, "--store=all"}, "--store: wants full, open or none"},
		"job tools":            {[]string{anywhere, "--job-tools=1"}, "wants two, all or none"},
		"guard window":         {[]string{anywhere, "--guard-window=0"}, "above zero"},
		"linger":               {[]string{anywhere, "--linger=-1s"}, "--linger: wants a duration"},
		"log level":            {[]string{anywhere, "--log-level=loud"}, "wants debug, info, warn or error"},
		"log format":           {[]string{anywhere, "--log-format=xml"}, "wants text or json"},
		"toggle":               {[]string{anywhere, "--no-cookies=hunter2"}, "wants true or false"},
		"header":               {[]string{anywhere, "--header=hunter2"}, "--header: "},
		"protocol's header":    {[]string{anywhere, "--header=Mcp-Session-Id: hunter2"}, "belongs to the protocol"},
		"line break":           {[]string{anywhere, "--header=X: hunter2\nY: z"}, "line break"},
		"token for a name":     {[]string{anywhere, "--bearer-env=Bearer hunter2"}, "not the token itself"},
		"proxy":                {[]string{anywhere, "--proxy=me:hunter2@proxy"}, "--proxy: wants direct or a URL"},
		"deadline header":      {[]string{anywhere, "--deadline-header=Accept"}, "--deadline-header: "},
		"deadline value":       {[]string{anywhere, "--deadline-header=X: 1"}, "--deadline-header: "},
		"empty file name":      {[]string{anywhere, "--ca-cert="}, "--ca-cert: wants a file name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := telling{file: broken, args: c.args}.resolve(t)
			var usage *usageError
			if !errors.As(err, &usage) {
				t.Fatalf("error %v (%T), want a usage error", err, err)
			}
			checkText(t, err, c.want)
		})
	}
}

// Configuration errors name the place and the cure, and no value.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	crm := "[servers.crm]\nurl = '" + anywhere + "'\n"
	for name, c := range map[string]struct {
		telling
		want string
	}{
		"no TOML":             {telling{file: "x = \n" + crm, args: []string{"crm"}}, "config.toml:1:"},
		"no TOML, by URL":     {telling{file: "x = \n" + crm, args: []string{anywhere}}, "config.toml:1:"},
		"no such file":        {telling{args: []string{anywhere, "--config=nowhere.toml"}}, "nowhere.toml"},
		"unknown server":      {telling{file: crm, args: []string{"crn"}}, "did you mean crm?"},
		"far server":          {telling{file: crm, args: []string{"warehouse"}}, "it has crm"},
		"no server at all":    {telling{args: []string{"crm"}}, "add [servers.crm]"},
		"unknown top key":     {telling{file: "answer_withn = '1s'\n" + crm, args: []string{"crm"}}, "answer_withn in "},
		"unknown top table":   {telling{file: "[server.crm]\nurl = '" + anywhere + "'\n", args: []string{"crm"}}, "did you mean servers?"},
		"credentials for all": {telling{file: "header = 'X: hunter2'\n" + crm, args: []string{"crm"}}, "move it below [servers.NAME]"},
		"config in config":    {telling{file: "config = 'x'\n" + crm, args: []string{"crm"}}, "config in "},
		"unknown key":         {telling{file: crm + "anser_within = '1s'\n", args: []string{"crm"}}, "did you mean answer_within?"},
		"hyphens":             {telling{file: crm + "answer-within = '1s'\n", args: []string{"crm"}}, "did you mean answer_within?"},
		"no url":              {telling{file: "[servers.crm]\nretries = 1\n", args: []string{"crm"}}, "servers.crm.url in "},
		"url of another kind": {telling{file: "[servers.crm]\nurl = 1\n", args: []string{"crm"}}, "wants a string"},
		"scheme":              {telling{file: "[servers.crm]\nurl = 'ftp://x'\n", args: []string{"crm"}}, "only http and https"},
		"no table":            {telling{file: "[servers]\ncrm = '" + anywhere + "'\n", args: []string{"crm"}}, "wants a table"},
		"servers no table":    {telling{file: "servers = 1\n", args: []string{anywhere}}, "wants tables"},
		"number for duration": {telling{file: crm + "answer_within = 45\n", args: []string{"crm"}}, "servers.crm.answer_within in "},
		"quoted toggle":       {telling{file: crm + "no_cookies = 'yes'\n", args: []string{"crm"}}, "without quotes"},
		"fraction":            {telling{file: crm + "retries = 1.5\n", args: []string{"crm"}}, "wants a string or a number"},
		"list of numbers":     {telling{file: crm + "read = [1]\n", args: []string{"crm"}}, "wants a list of strings"},
		"tool key":            {telling{file: crm + "[servers.crm.tools.x]\nclas = 'read'\n", args: []string{"crm"}}, "did you mean class?"},
		"tool class":          {telling{file: crm + "[servers.crm.tools.x]\nclass = 'reed'\n", args: []string{"crm"}}, "wants read, idempotent or write"},
		"tool pointer":        {telling{file: crm + "[servers.crm.tools.x]\nidempotency_key = 'id'\n", args: []string{"crm"}}, "JSON pointer"},
		"tool store":          {telling{file: crm + "[servers.crm.tools.x]\nstore = 'half'\n", args: []string{"crm"}}, "wants full, open or none"},
		"tool guard":          {telling{file: crm + "[servers.crm.tools.x]\nguard = 'on'\n", args: []string{"crm"}}, "wants arguments, tool or off"},
		"tool resolve":        {telling{file: crm + "[servers.crm.tools.x]\nresolve = 'me'\n", args: []string{"crm"}}, "wants user or model"},
		"tools no tables":     {telling{file: crm + "tools = 1\n", args: []string{"crm"}}, "wants tables"},
		"status key":          {telling{file: crm + "[servers.crm.tools.x]\nstatus = { tol = 'y' }\n", args: []string{"crm"}}, "did you mean tool?"},
		"status tool":         {telling{file: crm + "[servers.crm.tools.x]\nstatus = { state = '/y' }\n", args: []string{"crm"}}, "servers.crm.tools.x.status.tool in "},
		"status state":        {telling{file: crm + "[servers.crm.tools.x]\nstatus = { tool = 'y' }\n", args: []string{"crm"}}, "servers.crm.tools.x.status.state in "},
		"status list":         {telling{file: crm + "[servers.crm.tools.x]\nstatus = { tool = 'y', state = '/z', failed = 'no' }\n", args: []string{"crm"}}, "list of strings"},
		"status placeholder":  {telling{file: crm + "[servers.crm.tools.x]\nstatus = { tool = '${T}', state = '/z' }\n", args: []string{"crm"}}, "${T}"},
		"variable":            {telling{env: map[string]string{"MCPBRIDGE_RETRIES": "hunter2"}, args: []string{anywhere}}, "MCPBRIDGE_RETRIES: wants a number"},
		"placeholder flag":    {telling{args: []string{anywhere, "--answer-within=${LIMIT}"}}, "--answer-within: the value still holds ${LIMIT}"},
		"placeholder braces":  {telling{args: []string{anywhere, "--bearer-env={env:TOKEN}"}}, "{env:TOKEN}"},
		"placeholder variable": {telling{env: map[string]string{"MCPBRIDGE_PROXY": "${env:PROXY}"}, args: []string{anywhere}},
			"MCPBRIDGE_PROXY: the value still holds ${env:PROXY}"},
		"placeholder header": {telling{args: []string{anywhere, "--header=X: ${input:key}"}}, "${input:key}"},
		"placeholder file":   {telling{file: crm + "ca_cert = '${HOME}/ca.pem'\n", args: []string{"crm"}}, "${HOME}"},
		"placeholder URL":    {telling{args: []string{"https://${HOST}/mcp"}}, "${HOST}"},
		"placeholder url":    {telling{file: "[servers.crm]\nurl = 'https://{env:HOST}/mcp'\n", args: []string{"crm"}}, "{env:HOST}"},
		"placeholder name":   {telling{args: []string{"${SERVER}"}}, "${SERVER}"},
		"placeholder config": {telling{args: []string{anywhere, "--config=${CONFIG}"}}, "${CONFIG}"},
		"unset in header":    {telling{args: []string{anywhere, "--header=X: ${NOPE}"}}, `"NOPE" is not set`},
		"unset bearer":       {telling{args: []string{anywhere, "--bearer-env=NOPE"}}, `"NOPE" is not set`},
		"no header file":     {telling{args: []string{anywhere, "--header-file=nowhere"}}, "nowhere"},
		"plain http":         {telling{args: []string{"http://10.0.0.5/mcp?key=hunter2"}}, "--allow-http"},
		"plain http by name": {telling{file: "[servers.crm]\nurl = 'http://service.internal/mcp'\n", args: []string{"crm"}}, "service.internal"},
		"half a certificate": {telling{args: []string{anywhere, "--client-cert=x"}}, "--client-key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.resolve(t)
			var config *configError
			if !errors.As(err, &config) {
				t.Fatalf("error %v (%T), want a configuration error", err, err)
			}
			checkText(t, err, c.want)
		})
	}
}

func checkText(t *testing.T, err error, want string) {
	t.Helper()
	text := err.Error()
	if !strings.Contains(text, want) {
		t.Errorf("%q does not contain %q", text, want)
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("%q repeats a secret", text)
	}
	if strings.Contains(text, "\n") {
		t.Errorf("%q is more than one line", text)
	}
}

// What is wrong inside one server's table is nobody else's trouble.
func TestErrorsStayInTheirServer(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"value":      "retries = 'many'\n",
		"key":        "retires = 1\n",
		"syntax":     "retries = \n",
		"twice":      "retries = 1\nretries = 2\n",
		"tool":       "[servers.bad.tools.x]\nclass = 'reed'\n",
		"tool twice": "[servers.bad.tools.x]\nclass = 'read'\n[servers.bad.tools.x]\nclass = 'write'\n",
		"no url":     "url = ''\n",
		"list":       "read = [\n",
		"text":       "header = \"x\n",
		"long text":  "header = \"\"\"x\n",
		"garbage":    "\x00\xff\n",
		"again":      "[servers.bad]\n",
		"quoted":     "[servers.\"bad\".tools.x]\nclass = \n",
		"unclosed":   "[servers.bad.tools\nx = 1\n",
		"two faults": "retries = \nread = [\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "\ufeffretries = 1\r\n[servers.a]\nurl = 'https://a.example/mcp'\n[servers.bad]\n" + bad + "[servers.z]\nurl = 'https://z.example/mcp'\nretries = 3\n"
			for server, retries := range map[string]int{"a": 1, "z": 3} {
				o := telling{file: file, args: []string{server}}.mustResolve(t)
				if o.URL.Host != server+".example" || o.Retries != retries {
					t.Errorf("%s: URL %v, retries %d", server, o.URL, o.Retries)
				}
			}
			if o := (telling{file: file, args: []string{anywhere}}).mustResolve(t); o.Retries != 1 {
				t.Errorf("by URL: retries %d", o.Retries)
			}
			_, err := telling{file: file, args: []string{"bad"}}.resolve(t)
			var config *configError
			if !errors.As(err, &config) {
				t.Errorf("bad: error %v (%T), want a configuration error", err, err)
			}
		})
	}
}

// With a configuration error the rest is read all the same: the explanation is
// served under the right name and logged where it was asked for.
func TestBrokenOptionsAreFilled(t *testing.T) {
	t.Parallel()
	o, err := telling{args: []string{"crm", "--log-format=json", "--drain=4s"}}.resolve(t)
	if err == nil || o.Server != "crm" || !o.log.json || o.Drain != 4*time.Second {
		t.Errorf("options %+v, error %v", o, err)
	}
}

func TestAllowHTTP(t *testing.T) {
	t.Parallel()
	for _, c := range []telling{
		{args: []string{"http://127.0.0.1/mcp"}}, {args: []string{"http://localhost:8080"}}, {args: []string{"http://[::1]/"}},
		{args: []string{"http://10.0.0.5/mcp", "--allow-http"}},
		{args: []string{"http://10.0.0.5/mcp"}, env: map[string]string{"MCPBRIDGE_ALLOW_HTTP": "true"}},
		{args: []string{"crm"}, file: "[servers.crm]\nurl = 'http://10.0.0.5/mcp'\nallow_http = true\n"},
	} {
		c.mustResolve(t)
	}
	_, err := telling{args: []string{"http://10.0.0.5/mcp", "--allow-http=false"}, env: map[string]string{"MCPBRIDGE_ALLOW_HTTP": "true"}}.resolve(t)
	if err == nil {
		t.Error("--allow-http=false did not beat the variable")
	}
}

// File names in config.toml are relative to it, those of flags to the working
// directory, and ~/ is the home directory.
func TestFileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte("ca_cert = 'ca.pem'\nlog_file = '~/x.log'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := telling{args: []string{anywhere, "--config=" + path, "--state-dir=state"}}.mustResolve(t)
	here, err := filepath.Abs("state")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if o.CACert != filepath.Join(dir, "ca.pem") || o.StateDir != here || o.log.file != filepath.Join(home, "x.log") {
		t.Errorf("ca-cert %s, state-dir %s, log-file %s", o.CACert, o.StateDir, o.log.file)
	}
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	got := strangers([]string{"MCPBRIDGE_ANSWER_WITHN=1s", "MCPBRIDGE_RETRIES=1", "MCPBRIDGE_MY_TOKEN=hunter2", "PATH=/bin"})
	if len(got) != 1 || !strings.Contains(got[0], "did you mean MCPBRIDGE_ANSWER_WITHIN?") {
		t.Errorf("strangers: %q", got)
	}
}
