#!/usr/bin/env bash
# conformance.sh SUITE BINARY [RUN...]
#
# Runs the conformance suite through the bridge, two runs at a time, and
# compares what did not pass with conformance.txt beside this file: it fails on
# a failure that is not listed there, and on one that is listed and passes. The
# flags that a scenario needs are in conformance.json.
#
# SUITE is the folder with run.sh and server.sh, BINARY the built mcpbridge.
# Work folders, results and logs stay under $CONFORMANCE_WORK.
set -euo pipefail

suite=$(cd "$1" && pwd)
binary=$(realpath "$2")
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
base=${CONFORMANCE_WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/mcpbridge-conformance}
known=$here/conformance.txt

all=(server-2025-11-25 server-2026-07-28 client-2025-11-25 client-2026-07-28-modern client-2026-07-28-legacy)
runs=("$@")
[ ${#runs[@]} -gt 0 ] || runs=("${all[@]}")
outputs=$base/outputs
rm -rf "$outputs" "$base/suite"
mkdir -p "$outputs" "$base/suite"
cp -R "$suite"/*.sh "$suite"/package*.json "$suite"/src "$suite"/bin "$suite"/bridges "$base/suite/"
cp "$here/conformance.json" "$base/suite/bridges/mcpbridge.json"

# one RUN FOLDER: the exit code of the suite is not asked, its table is.
one() {
	local revision=${1#*-} script=run.sh host=() flags=
	case $1 in
	server-*) script=server.sh ;;
	*-modern) revision=${revision%-modern} host=(--host modern) ;;
	*-legacy) revision=${revision%-legacy} host=(--host legacy) ;;
	esac
	# The suite's upstream speaks both eras, and some tools of this set ask in the
	# legacy way only.
	[ "$1" != server-2025-11-25 ] || flags='--protocol legacy'
	CONFORMANCE_WORK=$base/$2 BRIDGE_CMD="$binary $flags {url}" \
		"$base/suite/$script" mcpbridge --requirements "$revision" "${host[@]}" >"$outputs/$1.txt" 2>&1 || true
	grep '^TOTAL' "$outputs/$1.txt" | sed "s/^/$1: /" || echo "$1: no total"
}

# lane FOLDER RUN...: one after the other.
lane() {
	local folder=$1
	shift
	for run in "$@"; do one "$run" "$folder"; done
}

first=() second=()
for i in "${!runs[@]}"; do
	if ((i % 2)); then second+=("${runs[i]}"); else first+=("${runs[i]}"); fi
done
lane first "${first[@]}" &
[ ${#second[@]} -eq 0 ] || lane second "${second[@]}"
wait

# failures RUN: the scenarios that did not pass, a line each: RUN SCENARIO STATUS.
failures() {
	awk -F'|' -v run="$1" '
		/^\| [a-z]/ && $2 !~ /^ scenario / {
			split($2, name, " ")
			verdict = $4 # client: status; server: through the bridge
			n = split(verdict, words, " ")
			if (words[n] != "PASS") print run, name[1], words[n]
		}' "$outputs/$1.txt"
}

bad=0
for run in "${runs[@]}"; do
	if ! grep -q '^TOTAL' "$outputs/$run.txt"; then
		echo "$run: did not finish:"
		tail -20 "$outputs/$run.txt"
		bad=1
		continue
	fi
	failures "$run" | sort >"$outputs/$run.failed"
	awk -v run="$run" '$1 == run {print $1, $2}' "$known" | sort >"$outputs/$run.known"
	while read -r line; do
		echo "NOT LISTED: $line"
		bad=1
	done < <(awk 'NR == FNR {known[$1 " " $2]; next} !(($1 " " $2) in known)' "$outputs/$run.known" "$outputs/$run.failed")
	while read -r line; do
		echo "LISTED, YET IT PASSES: $line"
		bad=1
	done < <(awk 'NR == FNR {failed[$1 " " $2]; next} !(($1 " " $2) in failed)' "$outputs/$run.failed" "$outputs/$run.known")
done
if ((bad)); then
	echo "conformance: not as listed in $known; tables are in $outputs"
	exit 1
fi
echo "conformance: as listed ($(cat "$outputs"/*.known | wc -l) known failures)"
