# Weir. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

LINT_VERSION := v2.15.0
LINT := .bin/golangci-lint-$(LINT_VERSION)

# Options of `make run`: its store, its rules, the port of its first API, the processes of each function, the lag of a
# distribution in front, and the number of regions.
STORE ?= memory
RULES ?= functions/rules.json
PORT ?= 8080
EDGE ?= 0
REGIONS ?= 0

# The architecture of the functions: arm64 or x86_64.
ARCH ?= arm64
FUNCTIONS := $(patsubst functions/%/main.go,%,$(wildcard functions/*/main.go))

# Two builds of the same source have the same bytes. The path of the source, the commit, and the Go
# settings of the user have no effect. If a variable of Go is empty, Go uses the setting of `go env -w`
# instead, so each variable below except GOEXPERIMENT has a value. The build tags leave out the RPC mode
# of aws-lambda-go, and HTTP/2, because DynamoDB and Lambda's runtime API use HTTP/1.1.
LAMBDA_GO := CGO_ENABLED=0 GOOS=linux GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off GOFLAGS=-mod=readonly GOWORK=off go
GOARCH_arm64 := arm64
GOARCH_x86_64 := amd64

# The platforms of the weir command in a release, and the version of the release. The version is the
# tag of the commit or, without a tag, v0.0.0 with the hash of the commit.
PLATFORMS := linux_amd64 linux_arm64 darwin_amd64 darwin_arm64
VERSION ?= $(or $(shell git describe --tags --exact-match 2>/dev/null),v0.0.0-$(shell git rev-parse --short=12 HEAD 2>/dev/null))

# The time that `make fuzz` spends on each target; with an x, the number of inputs.
FUZZTIME ?= 30s

# The time that `make soak` runs on each store.
SOAK ?= 60s

# The settings of a deployment, such as CONTEXT="stage=prod store=elasticache". infra/stages.json can have them too; see infra/README.md.
CONTEXT ?=
# When `make deploy` asks for confirmation: any-change, broadening, or never for a pipeline, which has no terminal.
APPROVAL ?= any-change
CDK = cd infra && npx --no-install cdk
# The regions that make deploy deploys, and make destroy destroys, such as ONLY="eu-central-1 us-east-1"; all by default.
ONLY ?=
STACKS = $(if $(ONLY),$(patsubst %,'Weir-*-%',$(ONLY)),--all)
SETTINGS = $(foreach word,$(CONTEXT),$(if $(findstring =,$(word)),,$(error CONTEXT: got "$(word)", want key=value without spaces)))$(if $(filter arch=% rules=% bundles=%,$(CONTEXT)),$(error CONTEXT: got arch, rules or bundles; use ARCH= and RULES=)) -c arch=$(ARCH) $(if $(filter file,$(origin RULES)),,-c rules=$(RULES)) $(addprefix -c ,$(CONTEXT))

# What `make e2e` deploys: the stack of infra, or the release. CLIENTS is its number of concurrent requests, and
# ISSUER=false deploys no issuer of tokens.
VARIANT ?= stack
CLIENTS ?=
ISSUER ?=

# The architecture of containers on this machine, and the template of `make sam` and `make test-sam`.
# Without a template, these targets synthesize one.
HOST_ARCH := $(patsubst aarch64,arm64,$(shell uname -m))
SAM_TEMPLATE ?=
TEMPLATES := $(wildcard infra/golden/*.json) infra/standalone/weir.template.json
SYNTHESIZED := infra/cdk.out/Weir-dev.template.json

.PHONY: context help run check check-fast test fetch test-go raced-stores raced-limiter raced-functions raced-local test-plain test-lab test-kafka sam test-sam sam-skipped templates test-console test-examples synth diff deploy destroy e2e bootstrap release golden create-only vendor fuzz soak lint cfn-lint build functions rename clean .bin/weir .bin/weir-tools FORCE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  STORE=memory|dynamodb|redis  RULES=path  PORT=8080 (of the first API)  EDGE=2s (viewer function in front; lag of its list)  REGIONS=3 (that share limits)  for make run"
	@echo "  ARCH=arm64|x86_64  for make functions and make build"
	@echo "  CONTEXT=\"stage=prod store=elasticache\"  for make synth, diff, deploy, destroy and e2e; see infra/README.md"
	@echo "  APPROVAL=any-change|broadening|never  when make deploy asks for confirmation"
	@echo "  SAM_TEMPLATE=path  a synthesized template for make sam and make test-sam"
	@echo "  WEIR_REQUIRE=browser,clients,docker,dynamodb,kafka,moto,redis,tools|all  makes tests fail instead of being skipped"
	@echo "  FUZZTIME=30s  for each target of make fuzz (10000000x: number of inputs); SOAK=60s  for each store of make soak"

run: .bin/weir ## Run the REST API, the HTTP API and the console on this machine
	@exec .bin/weir serve --store "$(STORE)" --rules "$(RULES)" --port "$(PORT)" --edge "$(EDGE)" --regions "$(REGIONS)"

check: .bin/weir ## Find all mistakes in the rules document (RULES=path)
	@.bin/weir check "$(RULES)"

# The linters include vet. With -trimpath, test binaries do not contain paths, so a second checkout
# does not compile them again.
TEST_FLAGS := -trimpath -vet=off -timeout=20m
GO_TEST := go test $(TEST_FLAGS)
# Before a program with the race detector exits, it sleeps for one second by default. Hundreds of programs
# exit, because tests start processes. The detector reports a race when it happens, so 50 ms are enough.
RACE_TEST := GORACE=atexit_sleep_ms=50 $(GO_TEST) -race
# local/lab is a module of its own.
LAB_TEST := go -C local/lab test $(TEST_FLAGS)
LAB_RACE_TEST := GORACE=atexit_sleep_ms=50 $(LAB_TEST) -race

# The race detector runs for packages with goroutines. PLAIN matches the other packages. The tests of
# PLAIN compute a lot in one goroutine, and the detector would make them five times as slow.
PLAIN := /infra|/limiter/(algo|rules|rules/document)$$|/local/viewer$$
# These tests run without the detector; the other tests of their packages run with it. They compute a lot, such as a
# simulation of many processes, repeat a run with many faults, or count the calls of a store.
PLAIN_TESTS := ^(TestAttack_(flood|hugeEvents|memory|spellPath|viewerAddress)|TestLayer_(path|decodedPath|largeAnswer|memory|eventMemory|hostileMembers|unreadable)|TestSettle_(badLines|cutLines)|TestSecurity|TestSpellings(_handler)?|TestStore_(calls.*|model)|TestAdaptive(_longWindow|_surge)?|TestOutage_environment|TestCount_bound|TestLimiter_Take_(floodOf.*|regionsFigures|regionsTrips)|TestSpread_(peek|shards_limitReported|sync_lost_enforced)|TestFiles|TestModel_.*|TestPairs|TestParse_hostile|TestDocs_commands|TestRun_(apiKeyHeader|credentials?|degradedBurst|domain|faults|issuerless|lateFault|oneURL|refusing|regions|settlement|vacuous))$$

STORES := /limiter/(dynamostore|memstore|redisstore|storetest)(/|$$)

# Node.js is optional: without npm, the tests that need its packages are skipped.
NODE := $(shell command -v npm)
MODULES := $(if $(NODE),local/console/node_modules infra/node_modules infra/examples/express/node_modules infra/examples/typescript/node_modules)

# The downloads run beside the linters. The second line calls make by name: make -n would run a line with $(MAKE), and
# so start the servers.
test: .bin/weir-tools ## Check formatting, vet, lint, and run all tests against real servers
	@$(MAKE) --no-print-directory -j4 lint fetch build $(MODULES)
	.bin/weir-tools with --install clients,dynamodb,moto,redis,tools -- make --no-print-directory test-go

fetch: .bin/weir-tools # the tools that take longest to fetch
	@.bin/weir-tools with --install clients,tools -- true

# One more group runs at a time than there are cores, because many tests wait for a server or a process. Each group
# runs one package at a time. The longest groups start first. The tests that check deadlines run alone.
test-go: # the part of make test that needs DynamoDB Local, Moto and Redis
	@$(MAKE) --no-print-directory -j$$(($$(getconf _NPROCESSORS_ONLN) + 1)) raced-stores test-plain raced-local raced-functions raced-limiter test-lab $(SAM) test-console cfn-lint test-kafka
	$(LAB_RACE_TEST) -shuffle=on -parallel=8 ./faults

# Without Node.js, make test skips the tests with the SAM CLI, unless WEIR_REQUIRE lists it.
SAM = $(if $(or $(NODE),$(findstring all,$(WEIR_REQUIRE)),$(findstring node,$(WEIR_REQUIRE))),test-sam,sam-skipped)
sam-skipped:
	@echo "SKIPPED: make test-sam needs Node.js, for the CDK"

raced-stores: GROUP = grep -E '$(STORES)'
raced-limiter: GROUP = grep -E '/limiter(/|$$)' | grep -Ev '$(STORES)'
raced-functions: GROUP = grep -E '/functions(/|$$)'
raced-local: GROUP = grep -Ev '/(functions|limiter)(/|$$)'
raced-stores raced-limiter raced-functions raced-local:
	$(RACE_TEST) -p 1 -shuffle=on -skip '^Test(SAM|Console|Kafka)|$(PLAIN_TESTS)' $(shell go list ./... | grep -Ev '$(PLAIN)' | $(GROUP))

test-plain:
	$(GO_TEST) -p 1 -shuffle=on $(shell go list ./... | grep -E '$(PLAIN)')
	$(GO_TEST) -p 1 -shuffle=on -run '$(PLAIN_TESTS)' ./functions/lambdahttp ./limiter ./limiter/dynamostore ./limiter/redisstore ./limiter/storetest ./local/gateway/template ./local/verify ./local/weir

test-lab:
	$(LAB_TEST) -p 1 -shuffle=on -skip '^TestExamples_layer' ./examples ./release ./simulate
	$(LAB_RACE_TEST) -p 1 -shuffle=on -skip '^Test(SAM|Kafka)' ./e2e ./kafka ./prometheus ./testservers ./tools
	$(LAB_TEST) -p 1 -count=1 -run '^TestExamples_layer' ./examples

# Go caches the result of a test until a file changes that the test itself reads. If the test starts a
# program, such as go list, Go does not see the files that this program reads. So -count=1 repeats the
# tests that start programs.
check-fast: lint ## Lint, and run the tests that need no server
	$(GO_TEST) -skip '^Test(SAM|Console|Kafka)' ./limiter/... ./functions/...
	$(GO_TEST) -count=1 -run '^TestImports' ./limiter
	$(GO_TEST) -count=1 ./infra/...

test-kafka: .bin/weir-tools ## Test events with Apache Kafka
	.bin/weir-tools with --install kafka -- $(LAB_TEST) -count=1 -v -run ^TestKafka ./kafka ./tools

sam: build ## Run the synthesized APIs with the SAM CLI, in containers (PORT=3000, and 3001)
	@$(if $(SAM_TEMPLATE),,$(MAKE) synth ARCH=$(HOST_ARCH))
	@exec .bin/weir-tools with --install docker,dynamodb,tools -- .bin/weir-tools sam --template "$(or $(SAM_TEMPLATE),$(SYNTHESIZED))" --port "$(if $(filter file,$(origin PORT)),3000,$(PORT))"

templates: # the templates of make test-sam
	@$(if $(SAM_TEMPLATE),$(MAKE) functions ARCH=$(HOST_ARCH),$(MAKE) synth ARCH=$(HOST_ARCH))
	@$(MAKE) synth ARCH=$(HOST_ARCH) FUNCTIONS= RULES=infra/stack/testdata/settle.json CONTEXT=stage=settle

test-sam: .bin/weir-tools templates infra/examples/express/node_modules ## Test the synthesized APIs and each sample event with the SAM CLI
	WEIR_SETTLE_TEMPLATE="$(abspath infra/cdk.out/Weir-settle.template.json)" WEIR_TEMPLATE="$(abspath $(or $(SAM_TEMPLATE),$(SYNTHESIZED)))" .bin/weir-tools with --install clients,docker,dynamodb,tools -- \
		$(LAB_TEST) -count=1 -v -run '^TestSAM' ./tools

test-console: .bin/weir-tools ## Test the console in Chromium, and write screenshots to .weir/screenshots
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory local/console/node_modules; fi
	$(GO_TEST) -count=1 -run '^TestConsole' ./local/console
	.bin/weir-tools with --install browser -- $(LAB_TEST) -count=1 ./console

test-examples: .bin/weir-tools ## Test the examples, and the layer in Node.js and Python
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory infra/examples/express/node_modules infra/examples/typescript/node_modules; fi
	.bin/weir-tools with --install clients,dynamodb,tools -- $(LAB_TEST) -count=1 ./examples

infra/examples/express/node_modules: infra/examples/express/package-lock.json
	@npm ci --ignore-scripts --prefix infra/examples/express --no-progress && touch $@

infra/examples/typescript/node_modules: infra/examples/typescript/package-lock.json
	@npm ci --ignore-scripts --prefix infra/examples/typescript --no-progress && touch $@

# Mistakes in CONTEXT are reported before the functions are built. With -trimpath, a second checkout does not compile again.
context:
	@cd infra && go run -trimpath . $(filter-out -c,$(SETTINGS))

synth: context functions infra/node_modules ## Synthesize the stack into infra/cdk.out
	@$(CDK) synth --quiet $(SETTINGS)
	@ls infra/cdk.out/*.template.json

diff: context functions infra/node_modules ## Show what a deploy would change
	@$(CDK) diff $(SETTINGS)

# An account has one role for API Gateway's logs in each region: a deployment creates it only if there is none.
LOG_ROLE = $(if $(filter logRole=%,$(CONTEXT)),true,.bin/weir-tools log-role)
deploy: context .bin/weir .bin/weir-tools functions infra/node_modules ## Deploy the stack with your AWS credentials
	@setting=$$($(LOG_ROLE)) && $(CDK) deploy --require-approval $(APPROVAL) $(STACKS) $(SETTINGS) $$setting

destroy: context functions infra/node_modules ## Delete the stack, except the table with the API keys
	@$(CDK) destroy $(if $(filter never,$(APPROVAL)),--force) $(STACKS) $(SETTINGS)

E2E = --store "$(if $(filter file,$(origin STORE)),dynamodb,$(STORE))" $(if $(filter file,$(origin RULES)),,--rules "$(RULES)") --variant "$(VARIANT)" $(if $(CLIENTS),--clients "$(CLIENTS)") $(if $(ISSUER),--issuer="$(ISSUER)") -- $(SETTINGS)
e2e: .bin/weir-tools ## Deploy a throw-away stack, verify it and delete it (STORE=dynamodb|elasticache|both VARIANT=stack|release); under a dollar
	@.bin/weir-tools e2e --check $(E2E)
	@$(MAKE) --no-print-directory $(if $(filter release,$(VARIANT)),.bin/weir release,build infra/node_modules)
	@exec .bin/weir-tools e2e $(E2E)

bootstrap: functions infra/node_modules ## Prepare an AWS account and region for the CDK, once
	@$(CDK) bootstrap $(SETTINGS)

# Only a template with a new type of resource needs create-only, which installs Python tools the first time.
golden: ## Write infra/stack/routes.txt and the templates in infra/golden again; make run loads them
	@go test -trimpath -vet=off -count=1 -run TestRoutes ./functions/handler -args -update
	@go test -trimpath -vet=off -count=1 -run TestGolden ./infra/stack -args -update
	@go test -trimpath -vet=off -count=1 -run TestReplacements_types ./infra/stack >/dev/null || $(MAKE) --no-print-directory create-only

create-only: .bin/weir-tools
	@WEIR_REQUIRE=tools .bin/weir-tools with --install tools -- sh -c '"$$WEIR_TOOLS/python" infra/tools/create_only.py "$$@"' - $(TEMPLATES) > infra/stack/testdata/create-only.new
	@mv infra/stack/testdata/create-only.new infra/stack/testdata/create-only.json

vendor: local/console/node_modules ## Copy the chart library again, after a new version in local/console/package.json
	@cp local/console/node_modules/uplot/LICENSE local/console/node_modules/uplot/dist/uPlot.iife.min.js local/console/node_modules/uplot/dist/uPlot.min.css local/console/web/uplot/

local/console/node_modules: local/console/package-lock.json
	@command -v npm >/dev/null || { echo "npm: not installed; the tests of the console need it to fetch axe-core" >&2; exit 1; }
	@npm ci --ignore-scripts --prefix local/console --no-progress && touch $@

infra/node_modules: infra/package-lock.json
	@command -v npm >/dev/null || { echo "npm: not installed; the CDK needs Node.js 20 or newer" >&2; exit 1; }
	@npm ci --ignore-scripts --prefix infra --no-progress && touch $@

fuzz: ## Run every fuzz target, one after another
	@targets=$$(go test -list '^Fuzz' ./... | awk '/^Fuzz/ { t[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, t[i]; n = 0 }'); \
	total=$$(wc -l <<<"$$targets"); n=0; failed=; \
	while read -r package target; do \
		n=$$((n + 1)); echo "fuzz $$n of $$total: $$package $$target for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package" </dev/null || failed="$$failed $$target"; \
	done <<<"$$targets"; \
	if [[ -n $$failed ]]; then echo "failed targets:$$failed (their inputs are in testdata/fuzz beside the test)"; exit 1; fi

soak: .bin/weir-tools ## Run load and faults on each store, and the long form of randomized tests
	WEIR_REQUIRE=dynamodb,redis .bin/weir-tools with --install dynamodb,redis -- go -C local/lab test -count=1 -v -timeout=30m -run '^Test(Soak|Regions)$$' ./faults -args -soak "$(SOAK)" | grep -v 'level=ERROR msg="store failed"'
	WEIR_SOAK=1 go test -count=1 -timeout=30m ./limiter/rules

# With -trimpath, the linters and the tests use the same compiled packages.
lint: $(LINT) ## Check formatting, vet and lint
	go mod tidy -diff
	GOFLAGS="$$(go env GOFLAGS) -trimpath" $(LINT) run ./...
	cd local/lab && go mod tidy -diff && GOFLAGS="$$(go env GOFLAGS) -trimpath" $(CURDIR)/$(LINT) run ./...

cfn-lint: .bin/weir-tools ## Check the CloudFormation templates
	.bin/weir-tools with --install tools -- sh -c '[ -z "$$WEIR_TOOLS" ] || { "$$WEIR_TOOLS/cfn-lint" "$$@" && "$$WEIR_TOOLS/python" infra/tools/create_only.py "$$@" | diff - infra/stack/testdata/create-only.json; }' - $(TEMPLATES)

build: .bin/weir .bin/weir-tools functions ## Build weir and weir-tools into .bin and the functions into dist

.bin/weir:
	@[ -e $@ ] || echo "building weir; with an empty build cache this takes about a minute ..."
	@go build -trimpath -o $@ ./local/weir

.bin/weir-tools:
	@go -C local/lab build -trimpath -o $(CURDIR)/$@ ./tools

functions: $(FUNCTIONS:%=dist/$(ARCH)/%/bootstrap) ## Build the functions for Lambda into dist/ARCH

dist/$(ARCH)/%/bootstrap: FORCE
	@GOARCH=$(or $(GOARCH_$(ARCH)),$(error ARCH: got "$(ARCH)", want arm64 or x86_64)) $(LAMBDA_GO) build \
		-buildvcs=false -tags lambda.norpc,nethttpomithttp2 -trimpath \
		-ldflags "-s -w -buildid=" -o $@ ./functions/$*

dist/weir/%/weir: FORCE
	@GOOS=$(word 1,$(subst _, ,$*)) GOARCH=$(word 2,$(subst _, ,$*)) CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 \
		go build -trimpath -ldflags "-s -w -buildid= -X github.com/weir-limits/weir/local/command.version=$(VERSION)" -o $@ ./local/weir

release: .bin/weir-tools $(PLATFORMS:%=dist/weir/%/weir) ## Build and pack all files of a release into dist/release (VERSION=v1.0.0)
	@$(MAKE) --no-print-directory functions ARCH=arm64 && $(MAKE) --no-print-directory functions ARCH=x86_64
	@.bin/weir-tools release "$(VERSION)"

# The page for copies keeps the address of Weir.
rename: ## Rename the module of your copy (MODULE=github.com/example/limits)
	@$(if $(findstring /,$(MODULE)),,$(error MODULE: got "$(MODULE)", want a path such as github.com/example/limits)) \
	export OLD=$$(go list -m) NEW="$(MODULE)"; \
	git grep -lzIF "$$OLD" -- ':!ADOPTING.md' | xargs -0 perl -pi -e 's/\Q$$ENV{OLD}\E(?![\w-])/$$ENV{NEW}/g'

clean: ## Remove built and fetched files, but keep the keys in .weir
	rm -rf .bin dist infra/cdk.out infra/node_modules infra/examples/{express,typescript}/node_modules local/console/node_modules local/servers/{clients,dynamodb}/node_modules

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION), once ..."
	@GOBIN=$(CURDIR)/.bin/build go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .bin/build/golangci-lint $@ && rmdir .bin/build
