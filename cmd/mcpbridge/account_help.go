package main

const loginHelp = `mcpbridge login signs in to a server. Bridges that run, and those that start
later, use the sign-in at once.

usage: mcpbridge login [flags] <url | name>

  --no-browser                    do not open a browser: print the page to open, and
                                  take the address it ends at from standard input

A browser on another machine ends at a page that it cannot show: paste that page's
address into the terminal where login runs. Where no browser starts and the server
offers it, a code to type on any device is shown instead.

example:
  mcpbridge login https://crm.example.com/mcp
` + accountHelp + `
exit codes: 0 signed in, 1 failed, 2 usage, 3 refused, ended by signing out, or not
finished in time
`

const logoutHelp = `mcpbridge logout revokes the tokens for a server, where it allows that, and
removes them here. It ends a sign-in that waits for somebody, in any process.

usage: mcpbridge logout [flags] <url | name>

  --forget                        remove everything else that is kept of the account
                                  too: registration, settings, list of tools, and the
                                  recorded calls with their results
` + accountHelp + `
exit codes: 0 signed out, 1 failed, 2 usage
`

const whoamiHelp = `mcpbridge whoami prints what is known here of the account at a server.

usage: mcpbridge whoami [flags] <url | name>

  --json                          print one JSON object
` + accountHelp + `
exit codes: 0 ok, 1 failed, 2 usage, 3 not signed in
`

// accountHelp names the flags of the bridge that the commands about accounts take.
const accountHelp = `
Flags of the bridge, with the same meaning (see "mcpbridge help"; variables and
config.toml count too):
  --server-id, --principal, --header, --header-file, --bearer-env, --token-command,
  --oauth-grant, --client-id, --client-secret-env, --client-secret-file,
  --private-key, --private-key-id, --token-auth-method, --client-metadata-url,
  --scope, --resource, --no-resource, --authorize-param, --token-endpoint, --issuer,
  --use-id-token, --callback-host, --callback-port, --callback-path,
  --auth-timeout, --token-store, --allow-http, --proxy, --ca-cert, --client-cert,
  --client-key, --connect-timeout, --state-dir, --allow-network-state, --log-level,
  --config
`
