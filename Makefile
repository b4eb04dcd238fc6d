# One set of build flags for everything: builds with other flags share no cache, so a second set
# would compile the world twice. Race runs need cgo and therefore pay once more, for the packages
# that start goroutines only.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
export KEEP

VERSION ?= 0.1.0-dev.g$(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X interlock.sh/cli.Version=$(VERSION) -X main.version=$(VERSION)
COMMANDS := interlock interlock-tui
# Nightshift's window needs C and the headers of OpenGL and X; with the tag it compiles the smaller GLES.
WINDOW := CGO_ENABLED=1 go build -tags gles -ldflags '$(LDFLAGS)'
PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
ASSETS := dist/assets
MODULES := $(patsubst %/go.mod,%,$(wildcard e2e/go.mod bench/go.mod))
SCRIPTS := $(shell git grep -lE '^\#!.*(/sh|/bash|env (sh|bash))' -- ':!*.go' ':!*.md' 2>/dev/null)

.PHONY: help build nightshift desktop test demo bench chaos-smoke dist packages release-snapshot lint fmt clean setup shellcheck vet unit race e2e

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/interlock and bin/interlock-tui for this machine
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ $(COMMANDS:%=./cmd/%)

nightshift: ## build bin/nightshift, the menu-bar app, for this machine (needs a C compiler, OpenGL and X headers)
	@mkdir -p bin
	$(WINDOW) -o bin/ ./cmd/nightshift

test: ## the one test command: everything that continuous integration runs
	@packaging/dev/stages.sh setup shellcheck vet unit race e2e dist desktop packages lint

demo: ## the main job on real parts, from install to answer (KEEP=1 leaves it running)
	@packaging/dev/demo.sh

bench: setup ## the measurements of docs/PERFORMANCE.md
	@bash packaging/dev/bench.sh

chaos-smoke: setup ## kill -9 of server and agent in the middle of runs, twenty times each
	@bash packaging/dev/chaos-smoke.sh

dist: ## build all four platforms and their manifest into dist/assets, for `interlock serve --assets`
	@mkdir -p $(ASSETS)
	@for platform in $(PLATFORMS); do \
	  for command in $(COMMANDS); do \
	    echo "build $$command-$$platform"; \
	    GOOS=$${platform%-*} GOARCH=$${platform#*-} \
	      go build -ldflags '$(LDFLAGS)' -o $(ASSETS)/$$command-$$platform ./cmd/$$command; \
	  done; \
	done
	@rm -f $(ASSETS)/nightshift-*
	@if [ "$$(uname -s)" = Linux ] && command -v gcc >/dev/null && [ -e /usr/include/GLES2/gl2.h ] && [ -e /usr/include/X11/extensions/xf86vmode.h ]; then \
	  echo "build nightshift-linux-$$(go env GOARCH)"; \
	  $(WINDOW) -o $(ASSETS)/nightshift-linux-$$(go env GOARCH) ./cmd/nightshift; \
	else \
	  echo 'nightshift is left out: its window needs a C compiler and the headers of OpenGL and X (make setup)'; \
	fi
	@go run ./installer/mkmanifest $(ASSETS) '$(VERSION)'

desktop: ## Nightshift in a real panel and a real window, on a display of its own; its pictures go to dist/desktop
	@packaging/test/nightshift-x.sh dist/desktop

packages: build nightshift ## build the deb and the rpm, and try them in a clean Debian (as root)
	@packaging/test/packages.sh bin

release-snapshot: ## build everything that a release publishes into dist/snapshot, unsigned
	@packaging/release/snapshot.sh '$(VERSION)'

lint: ## golangci-lint as .golangci.yml says
	@tool=$$(packaging/dev/gotool.sh golangci-lint); \
	failed=; \
	for module in . $(MODULES); do (cd $$module && "$$tool" run ./...) || failed=1; done; \
	[ -z "$$failed" ]

fmt: ## gofmt every Go file
	@gofmt -l -w $$(git ls-files '*.go')

clean: ## remove what was built here (caches outside the checkout stay)
	rm -rf bin dist .demo

setup: ## install the missing tools (Debian, as root) or say which they are
	@packaging/dev/setup.sh

shellcheck: ## shellcheck every script
	@shellcheck -x $(SCRIPTS)

vet: ## go vet for linux and for darwin
	go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	@for module in $(MODULES); do (cd $$module && go vet ./...); done

unit: ## the tests of the packages that start no goroutine
	@go run ./internal/dev/racepkgs -without | xargs -r go test -json | go run ./internal/dev/testsum

race: ## the tests of the packages that start goroutines, under the race detector
	@# Of SQLite, translated from C, every pointer would be checked beside: six times the time for nothing.
	@go run ./internal/dev/racepkgs | CGO_ENABLED=1 xargs -r go test -race -gcflags='modernc.org/...=-d=checkptr=0' -tags gles -json | go run ./internal/dev/testsum

e2e: ## the end-to-end tests, a module of their own
	@# More of them at once than there are cores: most of what they do is wait for processes.
	@(cd e2e && go test -parallel 4 -json ./...) | go run ./internal/dev/testsum
