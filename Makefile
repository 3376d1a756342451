.DEFAULT_GOAL := help
.NOTPARALLEL:

lint = go tool -modfile=scripts/tools.mod golangci-lint
node_modules = scripts/interop/node_modules/.package-lock.json
suite_modules = scripts/conformance/node_modules/.package-lock.json

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: SAMPLE = 3
check: early race guards ## All that CI checks

# Linters keep one processor busy, the suites in other languages half of one.
early: build ## Run lint, interop and conformance at the same time
	scripts/together '$(MAKE) --no-print-directory lint' '$(MAKE) --no-print-directory interop conformance'

test: ## Run the tests, without the slow ones
	go test -short ./...

# -race also checks each use of unsafe pointers, which costs an eighth of the time, mostly of encoding/json: make soak has these
# checks for the one package that uses unsafe.
race: ## Run every test under the race detector, in random order
	GORACE=atexit_sleep_ms=0 scripts/gotest -race -gcflags=all=-d=checkptr=0 -vet=off -parallel=4 -timeout=30m ./...
	scripts/gotest -vet=off -parallel=6 -timeout=30m ./internal/delivery -shared

repeat: ## Repeat the tests of PKG until one fails, COUNT (20) times or MINUTES (10) at most; RUN=regexp, LOAD=processes beside it, SEED=order
	scripts/repeat "$(PKG)" '$(RUN)' "$(or $(COUNT),20)" "$(or $(MINUTES),10)" "$(or $(LOAD),0)" "$(or $(SEED),on)"

mutants: ## Change decision code one place at a time and report changes that no test notices (PKG=internal/authz; a quarter of an hour for all)
	go run ./scripts/mutants $(PKG)

# Those whose tests take no time, and without which access is not guarded.
guards: ## Run mutants on the code that guards access (make check: one change in three)
	go run ./scripts/mutants -sample $(or $(SAMPLE),1) internal/authz internal/retry internal/fairsem

lint: ## Run the linters, check that go.mod is tidy, and that everything compiles for Windows
	$(lint) run -c .golangci.yml ./...
	GOOS=windows go vet ./...
	go mod tidy -diff
	$(MAKE) --no-print-directory rules

rules: ## Check the dashboard and the alert rules with Prometheus's own parsers
	go run -modfile=scripts/prometheus.mod scripts/promrules.go deploy/observability/alerts.yaml deploy/observability/dashboard.json

fmt: ## Format
	$(lint) fmt -c .golangci.yml ./...

build: ## Build everything, and bin/sluice
	go build ./...
	go build -trimpath -o bin/sluice ./cmd/sluice

run: ## Start a server for development on 127.0.0.1:8080 and 127.0.0.1:4222
	go run ./cmd/sluice serve --dev

demo: ## Show in three acts that deliveries survive failing receivers and kill -9; then a playground
	go build -trimpath -o bin/sluice ./cmd/sluice
	bin/sluice demo

console: $(node_modules) ## Write pkg/console/assets from pkg/console/ui
	go run -modfile=scripts/esbuild.mod scripts/bundle.go

console-bench: build $(node_modules) ## Measure the console: first paint, scrolling, memory, and what it costs the server (MINUTES=60 for an hour of attempts)
	cd scripts/interop && SLUICE_BIN=$(CURDIR)/bin/sluice MINUTES=$(or $(MINUTES),3) node consolebench.mjs

interop: build $(node_modules) ## Test a real server with clients of other projects, and those in TypeScript and Python (needs node and python3)
	go run -modfile=scripts/esbuild.mod scripts/bundle.go -check
	scripts/npmtest interop --test-name-pattern

$(node_modules): scripts/interop/package-lock.json
	cd scripts/interop && npm ci --no-audit --no-fund

conformance: build $(suite_modules) ## Run the public suite of Durable Streams against a real server (needs node)
	scripts/npmtest conformance -t

$(suite_modules): scripts/conformance/package-lock.json
	cd scripts/conformance && npm ci --no-audit --no-fund

soak: ## Run Step of wakes for 4,000,000 random steps, feeds under load, the tests of store and delivery twenty times, and models of mirrors (an hour)
	SLUICE_LONG=1 go test -count=1 -run='^TestModel_RandomHistoriesKeepTheGuarantees$$' -v ./internal/wake
	SLUICE_LONG=1 go test -count=1 -timeout=60m -run='^Test(Bundle)?Model_' ./internal/mirror
	SLUICE_LONG=1 go test -count=1 -p=1 -parallel=1 -timeout=30m -v ./internal/e2e \
		-run='^(TestFeed_CrowdMissesNothingUnreported|TestState_PlusFeedEqualsLaterState|TestFeed_ReadersOutliveTheirServer)$$'
	scripts/gotest -race -count=20 -timeout=60m ./internal/delivery/... ./internal/natsstore/...
	scripts/gotest -race -count=20 -timeout=60m ./internal/delivery -shared
	scripts/gotest -race ./internal/module/program

clients: $(node_modules) ## Write the types and operations of the clients in TypeScript and Python from the OpenAPI document, and the console, which contains one
	go run ./scripts/clients
	$(MAKE) --no-print-directory console

crash: ## Kill the server under load repeatedly, and count lost events and processes that are left
	SLUICE_LONG=1 go test -run='TestCrash_LosesNoEventAndKeepsPathOrder|TestCrash_BatchesLoseNoEvent|TestModuleCrash_LosesNoEvent' -count=1 -timeout=30m -v ./internal/e2e/

prefixes: ## Run the end-to-end tests twice at the same time, with two prefixes in one NATS account (SLUICE_TEST_NATS, half an hour)
	SLUICE_LONG=1 go test -count=1 -timeout=60m -run='^TestPrefix_TestsPassBesideEachOther$$' -v ./internal/e2e

faults: ## Test every fault in its long form, one at a time, and write docs/faults.md (a quarter of an hour)
	rm -rf bin/faults && mkdir -p bin/faults
	SLUICE_LONG=1 SLUICE_FAULTS=$(CURDIR)/bin/faults go test -count=1 -p=1 -parallel=1 -timeout=60m \
		-run='^($(shell grep -oh '\.Test[A-Za-z_]\+' internal/testkit/faulttest/faults.go | tr -d . | sort -u | paste -sd '|'))$$' ./internal/delivery ./internal/natsstore/records ./internal/e2e
	SLUICE_FAULTS=$(CURDIR)/bin/faults go test -count=1 -run=TestFaults_HaveTheirTests ./internal

bench: build ## Measure Sluice beside baselines, into bin/bench/1 (40 minutes; ROWS=speed,late; MISSING=1: rows without results; RUN=2: into bin/bench/2; OUTAGE=10m; SUBSCRIPTIONS=100000)
	go run ./cmd/bench -sluice bin/sluice -commit $(shell git describe --always --dirty --exclude "*") -rows "$(ROWS)" -outage $(or $(OUTAGE),1m) -subscriptions $(or $(SUBSCRIPTIONS),10000) \
		-results bin/bench/$(or $(RUN),1) -missing=$(if $(MISSING),true,false)

performance: ## Write docs/performance.md from all results in bin/bench
	go run ./cmd/bench -page docs $(wildcard bin/bench/*/*.json)

fuzz: ## Run every fuzz test for FUZZTIME (30s), one after the other, on FUZZCORES (all); FUZZ=Covers: only those of this name
	scripts/fuzz "$(or $(FUZZTIME),30s)" "$(FUZZCORES)" "$(FUZZ)"

vuln: ## Look for known vulnerabilities (VULNDB=file:///dir for a local copy of the database)
	go tool -modfile=scripts/tools.mod govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...

release-snapshot: ## Build a release of this commit for all platforms, unpublished, into bin/release, and test it (a quarter of an hour)
	cd scripts/release && go build -trimpath -o $(CURDIR)/bin/ github.com/goreleaser/goreleaser/v2 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	PATH="$(CURDIR)/bin:$$PATH" bin/goreleaser release --snapshot --clean --skip=docker
	SLUICE_RELEASE=$(CURDIR)/bin/release go test -count=1 -v -run='^(TestRelease_|TestReadme_FirstScreen)' ./scripts ./cmd/sluice

chart-check: ## Render the Helm chart with Helm's library and check its objects (the first run compiles for a minute; UPDATE_RENDERED=1 writes deploy/helm/rendered)
	mkdir -p bin/chart && cp scripts/chart/go.mod scripts/chart/go.sum bin/chart && cp scripts/chart/chart_test.go.txt bin/chart/chart_test.go
	cd bin/chart && go vet ./... && go test -count=1 ./...

fixture: ## Write a data directory, settings and routes of this commit for the tests of compatibility
	SLUICE_FIXTURE=$(CURDIR)/internal/e2e/testdata/state-$(shell git rev-parse --short=8 HEAD).tar.gz go test -count=1 -run='^TestCompatibility_' ./internal/e2e
	grep -v -e '^ *#' -e '^$$' config/example.yaml >config/testdata/settings-$(shell git rev-parse --short=8 HEAD).yaml
	SLUICE_INTERFACE=$(CURDIR)/internal/httpapi/testdata/interface-$(shell git rev-parse --short=8 HEAD).txt go test -count=1 -run='^TestOpenAPI_Keeps' ./internal/httpapi

natscli: ## Build the nats command line client, pinned, as bin/nats
	cd scripts/natscli && go build -trimpath -o $(CURDIR)/bin/nats github.com/nats-io/natscli/nats

.PHONY: early prefixes chart-check fixture clients release-snapshot faults soak repeat mutants guards help conformance check test race lint fmt build run demo interop crash bench performance fuzz vuln natscli
