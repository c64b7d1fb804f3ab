package bridgetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
)

// dispatch serves one request of either era. The result is a JSON object.
func (c *Call) dispatch() (any, error) {
	switch c.method {
	case "ping":
		if c.Modern() {
			break
		}
		return object{}, nil
	case "tools/list":
		return c.listTools()
	case "tools/call":
		return c.callTool()
	case "resources/list":
		return object{"resources": c.up.state.resourceList()}, nil
	case "resources/templates/list":
		return object{"resourceTemplates": []any{noteTemplate()}}, nil
	case "resources/read":
		return c.readResource()
	case "prompts/list":
		return object{"prompts": prompts()}, nil
	case "prompts/get":
		return c.getPrompt()
	case "completion/complete":
		return c.complete()
	case "tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list":
		if c.up.opts.Tasks && (c.Modern() || c.version == "2025-11-25") {
			return c.dispatchTask()
		}
	case "server/discover":
		if c.Modern() {
			return c.discover(), nil
		}
	}
	if c.Modern() {
		return nil, c.unknownMethod()
	}
	return c.dispatchLegacy()
}

// unknownMethod: modern servers answer 404 (MCP 2026-07-28, Streamable HTTP,
// "Protocol Version Header").
func (c *Call) unknownMethod() error {
	e := rpcErrorf(codeMethodNotFound, "method %q is not known", c.method)
	e.status = 404
	return e
}

func (c *Call) dispatchLegacy() (any, error) {
	switch c.method {
	case "logging/setLevel":
		level := c.params.string("level")
		if !slices.Contains(levels(), level) {
			return nil, rpcErrorf(codeInvalidParams, "level %q is not known", level)
		}
		c.session.setLevel(level)
		return object{}, nil
	case "resources/subscribe", "resources/unsubscribe":
		c.session.subscribe(c.params.string("uri"), c.method == "resources/subscribe")
		return object{}, nil
	}
	return nil, c.unknownMethod()
}

// capabilities are what the upstream can do, no more.
func (u *Upstream) capabilities(version string) object {
	caps := object{
		"tools":     object{"listChanged": true},
		"resources": object{"listChanged": true, "subscribe": true},
		"prompts":   object{"listChanged": true},
		"logging":   object{},
	}
	if version >= "2025-03-26" {
		caps["completions"] = object{}
	}
	if u.opts.Tasks && version >= modernVersion {
		caps["extensions"] = object{tasksExtension: object{}}
	} else if u.opts.Tasks && version == "2025-11-25" {
		caps["tasks"] = object{"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	}
	return caps
}

func (u *Upstream) serverInfo() object {
	return object{"name": u.opts.name(), "version": "1.0.0"}
}

func (c *Call) discover() object {
	o := object{
		"supportedVersions": c.up.opts.modernVersions(),
		"capabilities":      c.up.capabilities(c.version),
	}
	if c.up.opts.Instructions != "" {
		o["instructions"] = c.up.opts.Instructions
	}
	return o
}

// listTools lists one page. A cursor is the number of the first tool as text.
func (c *Call) listTools() (any, error) {
	tools := c.up.state.listed(c.version)
	from, size := 0, c.up.opts.PageSize
	if s, ok := c.d.strike("list-pages"); ok {
		size = s.arg.(int)
	}
	if c.params.has("cursor") {
		n, err := strconv.Atoi(c.params.string("cursor"))
		if err != nil || n < 0 || n > len(tools) {
			return nil, rpcErrorf(codeInvalidParams, "cursor is not known")
		}
		from = n
	}
	page := object{"tools": tools[from:]}
	if size > 0 && from+size < len(tools) {
		page["tools"] = tools[from : from+size]
		page["nextCursor"] = strconv.Itoa(from + size)
	}
	return page, nil
}

func (c *Call) callTool() (any, error) {
	t, ok := c.up.state.tool(c.d.tool)
	if !ok || t.ModernOnly && !c.Modern() {
		return nil, rpcErrorf(codeInvalidParams, "unknown tool: %s", c.d.tool)
	}
	if c.Modern() {
		if err := c.openState(); err != nil {
			return nil, err
		}
	}
	isTask, err := c.asTask(t)
	switch {
	case err != nil:
		return nil, err
	case isTask:
		return c.startTask(t)
	}
	return c.toolResult(t.Run(c))
}

// toolResult makes a result of what a tool returned.
func (c *Call) toolResult(result any, err error) (any, error) {
	var q *question
	var e *RPCError
	switch {
	case errors.As(err, &q):
		return c.inputRequired(q), nil
	case errors.As(err, &e):
		return nil, e
	case err != nil:
		return Failure(err.Error()), nil
	}
	return result, nil
}

// cacheable methods carry cache hints (MCP 2026-07-28, caching, "Cacheable Results").
func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// decorate adds what every modern result carries.
func (c *Call) decorate(result any) any {
	if !c.Modern() {
		return result
	}
	f := open(encode(result)).fields
	if f == nil {
		return result
	}
	if f["resultType"] == nil {
		f["resultType"] = json.RawMessage(`"complete"`)
	}
	meta := open(f["_meta"]).fields
	if meta == nil {
		meta = fields{}
	}
	meta[metaServerInfo] = encode(c.up.serverInfo())
	f["_meta"] = encode(meta)
	if cacheable(c.method) && string(f["resultType"]) == `"complete"` {
		f["ttlMs"] = encode(c.up.opts.ttl().Milliseconds())
		f["cacheScope"] = encode(c.cacheScope())
	}
	c.forgetHints(f)
	return f
}

func (c *Call) cacheScope() string {
	if c.method == "resources/read" {
		return "private"
	}
	return "public"
}

func (c *Call) forgetHints(f fields) {
	s, ok := c.d.strike("no-cache-hints")
	if !ok {
		return
	}
	delete(f, "ttlMs")
	delete(f, "cacheScope")
	if s.arg == "all" {
		delete(f, "resultType")
	}
}
