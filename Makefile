# `make test` works on any Debian machine with Go: it installs what the tests need and runs
# every test.

.PHONY: test tools build release lint bench fuzz upgrade-test

# What lint and test check. A part of it: make test CHECK=./internal/platform/...
# or stackyard run --only test --env CHECK=./internal/platform/...
CHECK ?= ./...

# Tests often wait for a disk or a browser, so more packages are tested at a time than there are cores.
test: tools
	go test -p 4 -timeout 20m $(CHECK)
ifeq ($(CHECK),./...)
	cd interop && go test ./...
	cd packaging && go test -vet=off ./... # vetting all that Helm imports takes longer than the tests
endif

# The tests start PostgreSQL, Chromium, ssh, sshd, a VNC server and containers themselves; only the programs must be
# installed. Where containers cannot be run, STACKYARD_SKIP_CONTAINER_TESTS=1 skips their tests.
tools:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || ./.ci/install postgresql
	@command -v ssh >/dev/null && { command -v sshd || test -x /usr/sbin/sshd; } >/dev/null || ./.ci/install openssh-client openssh-server
	@test -n "$$STACKYARD_SKIP_CONTAINER_TESTS" || { command -v buildah && command -v runc && command -v busybox && command -v skopeo && command -v docker-registry; } >/dev/null || ./.ci/install buildah runc busybox-static uidmap skopeo docker-registry
	@command -v Xvfb >/dev/null && command -v x11vnc >/dev/null || ./.ci/install xvfb x11vnc
	@command -v bwrap >/dev/null || ./.ci/install bubblewrap
	@command -v git-lfs >/dev/null || ./.ci/install git-lfs
	@test -n "$$STACKYARD_SKIP_CONTAINER_TESTS" || command -v podman >/dev/null || ./.ci/install podman
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || ./.ci/install chromium

build:
	CGO_ENABLED=0 go build -trimpath -o bin/stackyard ./cmd/stackyard

# Binaries, packages, an image, checksums: docs/install.md. VERSION is the tag of the commit unless it is given.
release:
	cd packaging && go run . --source .. --out ../dist --version "$(VERSION)"

# Upgrades databases of the release before under load, on PostgreSQL with servers of both releases side by side.
PREVIOUS ?= aee3faaf6844f4eafc840888d00b40e6b8fe071f
upgrade-test: tools
	@git cat-file -e $(PREVIOUS) 2>/dev/null || { echo "this clone lacks commit $(PREVIOUS), the release before; fetch it with: git fetch --unshallow"; exit 1; }
	@set -e; source=$$(mktemp -d); trap 'rm -rf "$$source"' EXIT; git archive $(PREVIOUS) | tar x -C "$$source"; \
	(cd "$$source" && CGO_ENABLED=0 go build -o previous ./cmd/stackyard); \
	STACKYARD_PREVIOUS_BINARY="$$source/previous" go test ./cmd/stackyard -run TestUpgrade_ -v

lint:
	@test -z "$$(gofmt -l api cmd internal interop packaging)" || { echo "gofmt would change:"; gofmt -l api cmd internal interop packaging; exit 1; }
	go vet $(CHECK)
	go tool staticcheck $(CHECK)
ifeq ($(CHECK),./...)
	cd interop && go vet ./...
endif

# One package after the other, so that they do not slow each other down; about 15 minutes in total.
# What is measured is in the units: rate/bare-inserts is how many a second we do for each that bare inserts
# do in the same run, so more is better; time/bare-yaml is how long it takes beside parsing bare YAML, so
# less is. One package: make bench PACKAGES=internal/domain/agents
PACKAGES ?= $(shell grep -rlE '^func Benchmark' --include='*_test.go' cmd internal | xargs -n1 dirname | sort -u)
bench:
	@for package in $(PACKAGES); do go test "./$$package" -timeout 30m -run '^$$' -bench . || exit 1; done

# Run each fuzz target for a short time: make fuzz FUZZTIME=30s
# Coverage guides the fuzzing, for which all dependencies are compiled once more; INSTRUMENT= goes without.
FUZZTIME ?= 10s
INSTRUMENT ?= -fuzz .
fuzz:
	@set -e; bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; cache=$$(go env GOCACHE)/fuzz; \
	for dir in $$(grep -rlE '^func Fuzz' --include='*_test.go' cmd internal | xargs -n1 dirname | sort -u); do \
		go test -c $(INSTRUMENT) -o "$$bin/fuzz.test" "./$$dir"; \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go | cut -c6-); do \
			echo "$$dir $$target"; \
			(cd "$$dir" && "$$bin/fuzz.test" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzminimizetime 10x -test.fuzzcachedir "$$cache/$$(go list .)"); \
		done; \
	done
