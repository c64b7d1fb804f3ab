package main

// shortUsage is printed when there is nothing to go on.
const shortUsage = `mcpbridge: no server given

usage: mcpbridge [flags] <url | name>     bridge an MCP host to a remote server
       mcpbridge <command> [flags]        login, logout, whoami, jobs, demo, classify,
                                          upstream, version, completion
       mcpbridge help                     flags, examples, configuration
`

// helpTexts returns the help of each command by its name.
func helpTexts() map[string]string {
	return map[string]string{
		"mcpbridge": bridgeHelp,
		"demo":      demoHelp,
		"classify":  classifyHelp,
		"jobs":      jobsHelp,
		"login":     loginHelp,
		"logout":    logoutHelp,
		"whoami":    whoamiHelp,
		"upstream":  upstreamHelp,
		"version":   versionHelp,
	}
}

const bridgeHelp = `mcpbridge forwards an MCP host, on standard input and output, to one remote MCP
server over HTTP.

usage:
  mcpbridge [flags] <url | name>    name: a server from config.toml
  mcpbridge <command> [flags]       see "mcpbridge help <command>"

commands:
  login         sign in to a server, before a call needs it
  logout        revoke and remove the tokens for a server
  whoami        what is known here of the account at a server
  jobs          calls that are unknown, run, or were not read: show and settle them
  demo          a tour on this machine alone: what happens when things go wrong
  classify      judge a captured HTTP reply
  upstream      a loopback server that fails on purpose
  version       print the version
  completion    print a script that completes commands in a shell

examples:
  Cursor, in ~/.cursor/mcp.json:
    {"mcpServers": {"crm": {"command": "mcpbridge",
      "args": ["https://crm.example.com/mcp", "--header=Authorization:${CRM_AUTH}"],
      "env": {"CRM_AUTH": "Bearer ..."}}}}

  Codex, in ~/.codex/config.toml (it passes on no variables but those it is told):
    [mcp_servers.crm]
    command = "mcpbridge"
    args = ["https://crm.example.com/mcp", "--bearer-env=CRM_TOKEN"]
    env_vars = ["CRM_TOKEN"]

  By hand:
    mcpbridge https://crm.example.com/mcp < requests.jsonl

upstream:
  --protocol auto|modern|legacy   revision of MCP to speak (auto)
  --transport auto|http|sse       Streamable HTTP or HTTP+SSE (auto)
  --server-id NAME                name of the server in texts and records
  --principal NAME                account that calls belong to

credentials:
  --header 'Name: value'          add a header; ${NAME} stands for a variable,
                                  $$ for a dollar sign; repeatable
  --header-file FILE              headers from a file, one a line, # for comments
  --bearer-env VARIABLE           send the variable's value as a bearer token
  --token-command 'COMMAND'       send what it prints as a bearer token; run again
                                  when the server refuses that; without a shell
  --no-cookies                    keep no cookies

signing in (needs no flags where the server registers clients by itself; a browser
opens with the first call that the server refuses; see "mcpbridge help login"):
  --oauth-grant authorization_code|device_code|client_credentials
                                  in a browser (the default), on any device, nobody
  --client-id ID                  client that was registered for you
  --client-secret-env VARIABLE, --client-secret-file FILE
                                  where its secret is (MCPBRIDGE_CLIENT_SECRET)
  --private-key FILE, --private-key-id ID
                                  key that signs in its stead (PEM), and the key's id
  --token-auth-method none|client_secret_basic|client_secret_post|private_key_jwt
                                  how the client proves who it is (by server)
  --client-metadata-url URL       client ID metadata document, where supported
  --scope SCOPE                   instead of what the server asks for; repeatable
  --resource URI, --no-resource   value of the resource parameter, or none
  --authorize-param NAME=VALUE    add to the sign-in page's address; repeatable
  --token-endpoint URL            instead of the authorization server's own
  --issuer URL                    authorization server, where its metadata writes its
                                  name in another way than the server
  --use-id-token                  send the ID token instead of the access token
  --callback-host HOST, --callback-port PORT, --callback-path PATH
                                  where the browser returns to (127.0.0.1, any
                                  port, /callback)
  --auth-timeout 5m               time to sign in
  --sign-in-on call|list          what starts it: a call (call), or also the host's
                                  first look at the tools, for hosts that look once
  --token-store keyring|file      where the key is that seals the tokens (the keyring
                                  of the system if it answers)

network:
  --allow-http                    allow http:// to other machines
  --proxy URL|direct              instead of HTTPS_PROXY and its kin
  --ca-cert FILE                  certificate authorities to trust as well (PEM)
  --client-cert FILE, --client-key FILE
                                  certificate and key to show (PEM)
  --connect-timeout 10s           time for a connection

time:
  --answer-within auto|DURATION   the host has an answer by then (auto: by host)
  --idle-timeout DURATION         end a stream that is silent for so long (off)
  --job-timeout 1h                give a call up after that
  --drain 1500ms                  time to finish once the host has gone
  --deadline-header NAME          header that tells upstream the milliseconds left
  --retries 2                     further deliveries of one request at most
  --on-cancel auto|forward        what a cancel of the host does upstream (auto:
                                  reads are cancelled, anything else goes on)

calls that may have an effect (see "mcpbridge help jobs"):
  --journal required|try|off      note each before it is sent: or do not send it, or
                                  try, or do not note (required for tools that say
                                  what they do, else try)
  --store full|open|none          keep arguments and results as long as the record,
                                  while needed, or never arguments (open)
  --guard-window 24h              hold a repeat of an unknown outcome back so long
  --job-tools two|all|none        tools of the bridge to list for handles (two)
  --linger DURATION               finish open calls after the host has gone, at most
                                  so long (what is left of --job-timeout; 0: do not)
  --input-timeout 10m             wait so long for an answer to a server's question

tools (a GLOB has * and ?; repeatable, or separated by commas):
  --read GLOB, --write GLOB       say what a tool does, whatever it says itself
  --ignore-tool GLOB              hide tools and refuse their calls
  --only-tool GLOB                hide all others
  --trust-annotations=false       take every tool for a write

limits (bytes, KiB, MiB, GiB):
  --max-message 64MiB             one message
  --host-line-limit 10MiB         one line to the host
  --max-memory 256MiB             all bodies held at once

program:
  --config FILE                   instead of the user's mcpbridge/config.toml
  --state-dir DIR                 where private state is kept
  --allow-network-state           also on a network file system
  --log-level debug|info|warn|error
                                  for standard error (warn)
  --log-format text|json
  --log-file FILE                 keep a log, from info upwards, rotated
  -h, --help
  --version

configuration:
  Flags beat variables (MCPBRIDGE_ANSWER_WITHIN and so on; lists one a line), which
  beat config.toml:
    answer_within = "45s"                  # for all servers
    [servers.crm]                          # mcpbridge crm
    url = "https://crm.example.com/mcp"
    bearer_env = "CRM_TOKEN"
    [servers.crm.tools."export_*"]
    class = "write"                        # read, idempotent, write
    answer_within = "20s"
    idempotency_key = "/requestId"         # where in the arguments a key belongs
    status = { tool = "get_export", arguments = { id = "{key}" },
               state = "/structuredContent/status", completed = ["done"],
               failed = ["error"], working = ["running"], absent = ["not_found"] }
  Other keys of a tool: on_cancel, store, guard (arguments, tool, off), resolve
  (user, model). The most specific glob counts.

exit codes: 0 ok, 1 failed, 2 usage, 3 sign-in needed, 4 outcome unknown
`

const demoHelp = `mcpbridge demo shows in a few seconds what the bridge does when things go wrong. It
starts a server that fails on purpose and plays a host; the bridge between them is
the real one. It needs no network and no configuration, and leaves nothing behind.

usage: mcpbridge demo

exit codes: 0 all that it tells was seen to happen, 1 something was not
`

const classifyHelp = `mcpbridge classify judges one captured HTTP reply as the bridge would.

usage: mcpbridge classify [flags] [file]

The file is one raw HTTP response as "curl -si" prints it: status line, headers,
an empty line, the body. Without a file, or with -, it is standard input.

  --method tools/call             JSON-RPC method that was sent
  --id 1                          id that was sent, as JSON
  --protocol 2026-07-28           revision of MCP
  --ended complete|cut|timeout    how the reply ended
  --offered tasks                 the request offered tasks
  --json                          print one JSON object

examples:
  curl -si https://crm.example.com/mcp -d @call.json | mcpbridge classify
  mcpbridge classify --ended timeout --json /dev/null

exit codes: 0 judged, 1 the file cannot be read, 2 no HTTP response, or usage
`

const upstreamHelp = `mcpbridge upstream serves MCP on loopback and fails on purpose, for trying out
hosts and bridges. Its first line is its URL. It keeps a ledger of what it was
sent and what took effect, as JSON at /ledger.

usage: mcpbridge upstream [flags]

  --listen 127.0.0.1:0            address to listen on
  --era both|legacy|modern|sse    revisions of MCP to speak
  --replicas 1                    listeners that share one state
  --fault NAME[:ARGUMENT][@METHOD|@TOOL][xTIMES]
                                  fail in this way; repeatable
  --list-faults                   print the faults, and leave

example:
  mcpbridge upstream --fault status:503,200 --fault lost-reply@write_notex1
`

const versionHelp = `mcpbridge version prints the version, the toolchain and the platform.

usage: mcpbridge version [--json]
`
