#!/usr/bin/env bash
# run.sh BINARY: clients and a server of the official TypeScript SDK around the
# built program. Packages go to $INTEROP_WORK, nothing is written here.
set -euo pipefail
binary=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${INTEROP_WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/mcpbridge-interop}
mkdir -p "$work"
cp "$here"/*.mjs "$here"/package.json "$here"/package-lock.json "$work/"
if ! cmp -s "$work/package-lock.json" "$work/node_modules/.installed"; then
	(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp "$work/package-lock.json" "$work/node_modules/.installed"
fi
exec node "$work/run.mjs" "$binary"
