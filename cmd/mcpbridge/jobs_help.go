package main

const jobsHelp = `mcpbridge jobs shows and settles the calls that may have had an effect, of all
servers and accounts of the state directory.

usage:
  mcpbridge jobs                  what is unknown, what runs, what nobody has read
  mcpbridge jobs list             all jobs, newest first
  mcpbridge jobs show HANDLE      one job with its timeline
  mcpbridge jobs wait HANDLE      wait for the end of a call
  mcpbridge jobs cancel HANDLE    have the server asked to stop it
  mcpbridge jobs resolve HANDLE happened|did_not_happen|send_again
                                  say what became of an unknown outcome, or have the
                                  same call made once more
  mcpbridge jobs stop             end the processes that outlive their hosts
  mcpbridge jobs prune            remove what has expired

A HANDLE may be the beginning of one; --last stands for the newest job.

jobs, list:
  --server NAME, --tool NAME, --state STATE,...
                                  only those; a state is working, input_required,
                                  outcome_unknown, completed, failed or cancelled
  --limit 100
  --json                          one object a line; with --result, results too
show, wait:
  --json                          one object, with the timeline
  --result                        the result alone, as the server gave it; with
                                  --json, inside the object
wait:
  --timeout DURATION              do not wait longer
cancel:
  --stop-waiting                  do not ask the server; only stop waiting for it
resolve:
  --why TEXT                      noted in the timeline
  --url URL                       the server, if it is not in config.toml; flags of
                                  the bridge follow behind --
stop:
  --all                           also calls whose host is still there
prune:
  --all                           remove everything that is settled; only that of
                                  --server NAME, --principal NAME
  --force                         with --all: calls that are open or unknown too

all:
  --state-dir DIR, --allow-network-state, --config FILE

exit codes: 0 ok, 1 failed, 2 usage, 4 outcome unknown (wait, resolve send_again)
`
