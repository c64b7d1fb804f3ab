package bridge

import (
	"fmt"
	"strings"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// This file is the bridge's own tool, mcpbridge_status: what is listed when
// nothing else can be, and what explains a configuration that cannot work.

// statusTool is its listing.
func (b *Bridge) statusTool() []byte {
	description := fmt.Sprintf("Says how the connection to the MCP server %s is. Its tools are not known yet: call this to see why, and list the tools again.", b.cfg.Server)
	if b.access.needsSignIn() {
		description = fmt.Sprintf("Says how the connection to the MCP server %s is. %s", b.cfg.Server, signInByCalling)
	}
	if b.cfg.Broken != nil {
		description = "This MCP server cannot work as configured. " + b.brokenText()
	}
	return concat(`{"name":"`, statusTool, `","description":`, quote(description),
		`,"inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)
}

// accountText names the account in the connection line.
func (b *Bridge) accountText() string {
	if who := b.access.account(); who != auth.Anonymous {
		return ", account " + who
	}
	return ""
}

// signInByCalling tells a model what calling one of the bridge's tools does while
// the tools of the server cannot be listed.
const signInByCalling = "The user is not signed in yet, so the tools of the server are not listed: calling this tool starts the sign-in, and they are listed after it."

// brokenText is the configuration error and its cure.
func (b *Bridge) brokenText() string {
	return fmt.Sprintf("mcpbridge: %s.", strings.TrimRight(b.cfg.Broken.Error(), "."))
}

// broken answers what else a host wants of a bridge that cannot work.
func (b *Bridge) broken(x *exchange) bool {
	x.answerText([][]byte{rpcErrorLine(x.id, codeUnreachable, b.brokenText(), []byte(`{"source":"mcpbridge"}`))})
	return true
}

// callOurs answers calls of the bridge's own tools, listed or not, and every
// call where the configuration is broken.
func (x *exchange) callOurs() bool {
	name, _ := jsonrpc.String(x.msg.Field(jsonrpc.Name))
	if x.bridge.cfg.Broken != nil {
		text := "NOT SENT: this MCP server cannot work as configured. Known: " + x.bridge.brokenText() + " Next: tell the user to correct it and to restart the server in the host."
		x.answerResult(concat(`{"content":[`, textBlock(text), `],"isError":true}`))
		return true
	}
	if name == statusTool {
		b := x.bridge
		x.setTool(name)
		if text := x.signInFirst(); text != "" {
			x.say(text, true)
			return true
		}
		x.answerResult(concat(`{"content":[`, textBlock(b.statusText()+b.lingerText()+b.countersText()), `]}`))
		return true
	}
	return x.bridge.keeper != nil && x.bridge.keeper.callOwn(x, name)
}

// statusText is the connection in one or two sentences.
func (b *Bridge) statusText() string {
	up, failure := b.link.state()
	switch {
	case b.access.needsSignIn():
		return fmt.Sprintf("Server %s wants the user to sign in. The user may %s.", b.cfg.Server, b.howToSignIn(auth.Prompt{}))
	case up != nil && b.offers.trouble() != "":
		return fmt.Sprintf("Server %s is connected (%s%s), but its list of tools cannot be read: %s. mcpbridge goes on trying and announces the tools when they come.",
			b.cfg.Server, up.era(), b.accountText(), b.offers.trouble())
	case up != nil && b.offers.gotNone():
		return fmt.Sprintf("Server %s is connected (%s%s). List the tools again to see them.", b.cfg.Server, up.era(), b.accountText())
	case up != nil:
		return fmt.Sprintf("Server %s is connected (%s%s).", b.cfg.Server, up.era(), b.accountText())
	case failure != "":
		return fmt.Sprintf("Server %s cannot be reached at the moment: %s. mcpbridge goes on trying and announces the tools when it is there.",
			b.cfg.Server, strings.TrimRight(failure, ". "))
	}
	return fmt.Sprintf("mcpbridge is connecting to server %s.", b.cfg.Server)
}
