# mcpbridge. `make` alone lists what there is.

GO          ?= go
BIN         ?= bin/mcpbridge
FUZZTIME    ?= 1m
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.9.0
BENCH       ?= ../shared/bench
CONFORMANCE ?= ../shared/conformance

# What `make conformance` runs; empty is all, see cmd/mcpbridge/interop/conformance.sh.
RUNS ?=

# The version comes from the tag that git knows, where git may be asked.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

.PHONY: help build test demo check fuzz interop interop-go interop-node conformance faults crash eras browser bench bench-journal

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/mcpbridge, one static binary
	CGO_ENABLED=0 $(GO) build -buildvcs=$(BUILDVCS) -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/mcpbridge

test: ## every Go test, with the race detector
	$(GO) test -race ./...

demo: ## what the bridge does when things go wrong, in a few seconds
	@$(GO) run ./cmd/mcpbridge demo

check: check-format check-go check-modules check-vulnerabilities ## what has to hold before a commit

.PHONY: check-format check-go check-modules check-vulnerabilities
check-format:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }

check-go:
	$(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

check-modules:
	$(GO) mod tidy -diff
	$(GO) mod verify

# Without a network the database of vulnerabilities cannot be read. That alone
# is let pass, and said; a finding or any other error is not.
check-vulnerabilities:
	@out=$$($(GO) run $(GOVULNCHECK) ./... 2>&1); code=$$?; \
	if [ $$code -eq 0 ]; then echo "govulncheck: nothing found"; \
	elif echo "$$out" | grep -qE 'fetching vulnerabilities: Get .*(dial tcp|lookup|timeout|EOF)'; then \
		echo "govulncheck: not run, its database cannot be reached from here"; \
	else echo "$$out"; exit $$code; fi

fuzz: ## each fuzz target for FUZZTIME (1m)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

interop: interop-go interop-node ## clients and servers of others around the real program

interop-go:
	$(GO) test -count=1 ./cmd/mcpbridge/interop

interop-node: build
	cmd/mcpbridge/interop/node/run.sh $(BIN)

conformance: build ## the conformance suite, against the list of known failures
	@if [ -d $(CONFORMANCE) ]; then cmd/mcpbridge/interop/conformance.sh $(CONFORMANCE) $(BIN) $(RUNS); \
	else echo "conformance: skipped, there is no $(CONFORMANCE)"; fi

# $(call table,PACKAGE,SETTINGS) runs a matrix, prints its table and writes it into README.md.
table = @out=$$(mktemp) && if $(2) $(GO) test -count=1 -timeout 10m $(1) -run TestMatrix -v -print-matrix -update-readme >$$out; \
	then grep '^|' $$out; rm -f $$out; else grep -v '^ *=== \|--- PASS' $$out; rm -f $$out; exit 1; fi

faults: ## every fault against every class of call, as a table, also in README.md
	$(call table,./cmd/mcpbridge/faults,FAULTS=all)

eras: ## every feature for hosts and servers of either era, as a table, also in README.md
	$(call table,./cmd/mcpbridge/eras,)

crash: ## kill points against the server's ledger, and 10,000 jobs from three bridges
	CRASH_FULL=1 CRASH_TABLE=$(TABLE) $(GO) test -count=1 -timeout 20m ./cmd/mcpbridge/crash

browser: ## a real browser signs in: headless Chromium, Debian's where there is none
	command -v chromium >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; }
	CI=1 $(GO) test -count=1 ./cmd/mcpbridge/browser

bench-journal: ## what the journal costs, beside its own turn
	$(GO) test ./jobs -run '^$$' -bench 'Call|Floor' -benchtime 3000x
	$(GO) test ./cmd/mcpbridge/cost -run '^$$' -bench 'Write|AfterPrune' -benchtime 500x -timeout 20m
	$(GO) test ./cmd/mcpbridge/cost -run '^$$' -bench 'GroupCommit|LargeJournal' -benchtime 10x -timeout 20m

bench: build ## what the bridge costs, as ratios
	MCPBRIDGE=$(CURDIR)/$(BIN) $(BENCH)/run.sh -vs mcpbridge,floor,floor-journal,sdkmin -rounds 5
