# Weir. `make help` lists the targets; local/lab/Makefile has those that need more than Go, DynamoDB Local, Redis and Node.js.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Options of `make run`.
STORE ?= memory
RULES ?= functions/rules.json
PORT ?= 8080
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
$(if $(GOARCH_$(ARCH)),,$(error ARCH: got "$(ARCH)", want arm64 or x86_64))

# The platforms of the weir command in a release, and the version of the release. The version is the
# tag of the commit or, without a tag, v0.0.0 with the hash of the commit.
PLATFORMS := linux_amd64 linux_arm64 darwin_amd64 darwin_arm64
VERSION ?= $(or $(shell git describe --tags --exact-match 2>/dev/null),v0.0.0-$(shell git rev-parse --short=12 HEAD 2>/dev/null))

# The settings of a deployment, such as CONTEXT="stage=prod store=elasticache". infra/stages.json can have them too; see infra/README.md.
CONTEXT ?=
# When `make deploy` asks for confirmation: any-change, broadening, or never for a pipeline, which has no terminal.
APPROVAL ?= any-change
CDK = cd infra && npx --no-install cdk
# The regions that make deploy deploys, and make destroy destroys, such as ONLY="eu-central-1 us-east-1"; all by default.
ONLY ?=
STACKS = $(if $(ONLY),--exclusively $(patsubst %,'Weir-*-%',$(ONLY)),--all)
SETTINGS = $(foreach word,$(CONTEXT),$(if $(findstring =,$(word)),,$(error CONTEXT: got "$(word)", want key=value without spaces)))$(if $(filter arch=% rules=% bundles=%,$(CONTEXT)),$(error CONTEXT: got arch, rules or bundles; use ARCH= and RULES=)) -c arch=$(ARCH) $(if $(filter file,$(origin RULES)),,-c rules=$(RULES)) $(addprefix -c ,$(CONTEXT))

LINT_VERSION := v2.15.0
LINT := .bin/golangci-lint-$(LINT_VERSION)
CORES := $(shell getconf _NPROCESSORS_ONLN)
# What the lab's Makefile does.
LAB := bench cfn-lint console examples faults foreign fuzz kafka race sam soak test-sam test-starter

.PHONY: context help run check test test-go test-all synth diff deploy edge destroy bootstrap release golden create-only vendor lint build functions rename clean starter $(LAB) .bin/weir .bin/weir-tools FORCE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile local/lab/Makefile
	@echo
	@echo "  STORE=memory|dynamodb|redis  RULES=path  PORT=8080 (of the first API)  REGIONS=3 (that share limits)  for make run"
	@echo "  ARCH=arm64|x86_64  for make functions and make build"
	@echo "  CONTEXT=\"stage=prod store=elasticache\"  for make synth, diff, deploy and destroy; see infra/README.md"
	@echo "  APPROVAL=any-change|broadening|never  when make deploy asks for confirmation"
	@echo "  WEIR_REQUIRE=all  makes tests fail instead of being skipped (or a list: browser,clients,docker,dynamodb,kafka,njs,redis,tools)"

run: TAGS := $(if $(filter redis,$(STORE)),,noredis)
run: .bin/weir ## Run the REST API, the HTTP API and the console on this machine
	@exec .bin/weir serve --store "$(STORE)" --rules "$(RULES)" --port "$(PORT)" --regions "$(REGIONS)"

check: .bin/weir ## Find all mistakes in the rules document (RULES=path)
	@.bin/weir check "$(RULES)"

# With -trimpath, test binaries have no paths, so a second checkout does not compile them again. The linters include vet.
GO_TEST := go test -trimpath -vet=off -timeout=10m
# A line a package as it ends, and the output of a package that fails.
LINES := awk -f local/lab/lines.awk
SERVERS := WEIR_REQUIRE=dynamodb,redis

test: .bin/weir-tools infra/node_modules ## Test with DynamoDB Local and Redis, which this installs
	@$(if $(WEIR_REQUIRE),$(SERVERS)) .bin/weir-tools with --install dynamodb,redis -- make --no-print-directory test-go

# One more package runs at a time than there are cores, because many tests wait for a server.
test-go: # the part of make test that needs the servers
	@$(GO_TEST) -json -p $$(($(CORES) + 1)) ./... | $(LINES)

test-all: lint test ## make lint, make test, and all tests that need more: SAM, browser, Kafka, examples, foreign servers
	@$(MAKE) -C local/lab --no-print-directory all

$(LAB):
	@$(MAKE) -C local/lab --no-print-directory $@

# Mistakes in CONTEXT are reported before the functions are built. With -trimpath, a second checkout does not compile again.
context:
	@cd infra && go run -trimpath . $(filter-out -c,$(SETTINGS))

synth: context functions infra/node_modules ## Synthesize the stack into infra/cdk.out
	@$(CDK) synth --quiet $(SETTINGS)
	@ls infra/cdk.out/*.template.json

diff: context functions infra/node_modules ## Show what a deploy would change
	@$(CDK) diff $(SETTINGS)

SECRETS = $(if $(SECRET),--parameters OriginSecret="$(SECRET)" --parameters PreviousOriginSecret="$(PREVIOUS_SECRET)")
# infra/account.go says what a deployment asks the account first.
deploy: context .bin/weir functions infra/node_modules ## Deploy the stack with your AWS credentials
	@account=$$(cd infra && go run -trimpath . account $(filter-out -c,$(SETTINGS))) && $(CDK) deploy --require-approval $(APPROVAL) $(STACKS) $(SECRETS) $(SETTINGS) $$account

edge: infra/node_modules ## Deploy a CloudFront distribution in front of an API; see infra/edge/README.md
	@$(CDK) deploy --app "go run -trimpath ./edge" --output cdk.out/edge --require-approval $(APPROVAL) --parameters OriginSecret="$(SECRET)" $(SETTINGS)

destroy: context functions infra/node_modules ## Delete the stack, except the table with the API keys
	@$(CDK) destroy $(if $(filter never,$(APPROVAL)),--force) $(STACKS) $(SETTINGS)

bootstrap: functions infra/node_modules ## Prepare an AWS account and region for the CDK, once
	@$(CDK) bootstrap $(SETTINGS)

# Only a template with a new type of resource needs create-only, which installs Python tools the first time.
golden: ## Write infra/stack/routes.txt and the templates in infra/golden again; make run loads them
	@go test -trimpath -vet=off -count=1 -run TestRoutes ./functions/handler -args -update
	@go test -trimpath -vet=off -count=1 -run TestGolden ./infra/stack -args -update
	@go test -trimpath -vet=off -count=1 -run TestReplacements_types ./infra/stack >/dev/null || $(MAKE) --no-print-directory create-only

TEMPLATES := $(wildcard infra/golden/*.json infra/standalone/*.template.json)
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

# With -trimpath, the linters and the tests use the same compiled packages.
lint: $(LINT) ## Check formatting, vet and lint
	go mod tidy -diff
	GOFLAGS="$$(go env GOFLAGS) -trimpath" $(LINT) run --allow-parallel-runners ./...
	cd local/lab && go mod tidy -diff && GOFLAGS="$$(go env GOFLAGS) -trimpath" $(CURDIR)/$(LINT) run --allow-parallel-runners ./...

build: .bin/weir .bin/weir-tools functions ## Build weir and weir-tools into .bin and the functions into dist

.bin/weir:
	@[ -e $@ ] || echo "building weir; with an empty build cache this takes about a minute ..."
	@go build -trimpath -tags "$(TAGS)" -o $@ ./local/weir

.bin/weir-tools:
	@go -C local/lab build -trimpath -o $(CURDIR)/$@ ./tools

functions: $(FUNCTIONS:%=dist/$(ARCH)/%/bootstrap) ## Build the functions for Lambda into dist/ARCH

define bundle
dist/$(1)/%/bootstrap: FORCE
	$$(if $$(VERBOSE),@echo "building $$@",@true)
	@GOARCH=$$(GOARCH_$(1)) $$(LAMBDA_GO) build -buildvcs=false -tags lambda.norpc,nethttpomithttp2 -trimpath -ldflags "-s -w -buildid=" -o $$@ ./functions/$$*
endef
$(foreach arch,arm64 x86_64,$(eval $(call bundle,$(arch))))

dist/weir/%/weir: FORCE
	$(if $(VERBOSE),@echo "building $@",@true)
	@GOOS=$(word 1,$(subst _, ,$*)) GOARCH=$(word 2,$(subst _, ,$*)) CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 \
		go build -trimpath -ldflags "-s -w -buildid= -X github.com/weir-limits/weir/local/command.version=$(VERSION)" -o $@ ./local/weir

RELEASED := $(PLATFORMS:%=dist/weir/%/weir) $(foreach arch,arm64 x86_64,$(FUNCTIONS:%=dist/$(arch)/%/bootstrap))
release: .bin/weir-tools ## Build and pack all files of a release into dist/release (VERSION=v1.0.0)
	@$(MAKE) --no-print-directory -j$(CORES) VERBOSE=1 $(RELEASED)
	@.bin/weir-tools release "$(VERSION)"

starter: ## Begin an API of your own in a new folder (TO=../shop MODULE=example.com/shop)
	@$(if $(findstring /,$(MODULE)),,$(error MODULE: got "$(MODULE)", want a path such as example.com/shop))[ -n "$(TO)" ] && [ ! -e "$(TO)" ] || { echo 'TO: got "$(TO)", want a new folder' >&2; exit 2; }
	@mkdir -p "$(TO)" && git archive HEAD:local/starter | tar -x -C "$(TO)"
	@cd "$(TO)" && grep -rl 'example.com/limits' . | xargs perl -pi -e 's|example\.com/limits|$(MODULE)|g' && go mod edit -replace "github.com/weir-limits/weir=$(CURDIR)"
	@echo "$(TO): run make help there"

# The page for copies keeps the address of Weir.
rename: ## Rename the module of your copy (MODULE=github.com/example/limits)
	@$(if $(findstring /,$(MODULE)),,$(error MODULE: got "$(MODULE)", want a path such as github.com/example/limits)) \
	export OLD=$$(go list -m) NEW="$(MODULE)"; \
	git grep -lzIF "$$OLD" -- ':!.github/ADOPTING.md' | xargs -0 perl -pi -e 's/\Q$$ENV{OLD}\E(?![\w-])/$$ENV{NEW}/g'

clean: ## Remove built and fetched files, but keep the keys in .weir
	rm -rf .bin dist infra/cdk.out infra/node_modules infra/examples/{express,typescript}/node_modules local/console/node_modules local/servers/{clients,dynamodb}/node_modules

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION), once ..."
	@GOBIN=$(CURDIR)/.bin/build go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .bin/build/golangci-lint $@ && rmdir .bin/build
