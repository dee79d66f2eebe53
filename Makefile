# The two commands to know: `make run` and `make test`. `make help` lists the others.

CARGO ?= cargo
# Cargo builds where CARGO_TARGET_DIR says, if it is set.
BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))
TIERWISE := $(BUILT)/release/tierwise
PYTHON ?= python3
# Given to the lab's guests, without symbols: a guest's disk is in memory.
TESTED := target/lab-tested
TIERLAB := PYTHONPATH=lab $(PYTHON) -m tierlab
FLEET := $(PYTHON) -m unittest discover --top-level-directory .
# A third of the resident set in fast memory, all policies, every recorded program.
SCENARIOS := scenarios/recorded/*.toml

.PHONY: help run install test test-install lint deny pure build recorder docs docs-check fuzz \
	bench record test-doc test-python test-emt test-dashboard test-fleet fleet-test fleet-bench \
	fleet-node lab lab-smoke lab-test lab-bench lab-shell tested packages package-wheel \
	package-wheel-emt package-deb package-tarball package-image package-image-dra package-crates \
	release check-release test-packages test-packages-dev needs-packages needs-cargo needs-pure \
	needs-run needs-text needs-test needs-python needs-emt needs-browser needs-fleet needs-go \
	needs-lab clean

help:
	@echo "make run             compare every policy on the recorded programs;"
	@echo "                     writes tierwise-report.html"
	@echo "make install         install the daemon, command, recorder, scenarios, systemd unit,"
	@echo "                     manual pages and completions (PREFIX, DESTDIR, RUST_PROFILE=dist)"
	@echo "make test            every check: formats, lints, licences, purity, docs, tests"
	@echo "make test-install    install into a temporary directory and use that without the source"
	@echo "                     tree (part of make test)"
	@echo "make test-python     build the Python package into target/venv and run its tests"
	@echo "                     (part of make test)"
	@echo "make test-emt        build tierwise.emt into target/emt-venv and run its tests"
	@echo "                     (part of make test)"
	@echo "make test-fleet      run the daemon beside a real containerd (part of make test)"
	@echo "make fleet-test      the same with what Go modules must be built for (needs Go)"
	@echo "make fleet-node      run a kubelet, containerd and the daemon in a guest with two tiers"
	@echo "                     (needs Go; an hour)"
	@echo "make test-dashboard  check the daemon's page and the reports in Chromium"
	@echo "                     (part of make test)"
	@echo "make lab             build the Linux guests with two nodes in which live code is tested"
	@echo "                     (lab/README.md)"
	@echo "make lab-smoke       run a few of the lab's tests in them, on both kernels"
	@echo "                     (part of make test)"
	@echo "make lab-test        run all of the lab's tests, on both kernels (LAB='--kernel 7': on"
	@echo "                     one)"
	@echo "make lab-bench       measure policies in guests with a slower node, and the simulator"
	@echo "                     beside (half an hour)"
	@echo "make lab-shell       boot a guest with this terminal as its console"
	@echo "make recorder        build the QEMU plugin that records programs"
	@echo "make record          record the shipped traces again (about an hour)"
	@echo "make bench           measure; docs/performance.md lists the measurements"
	@echo "make fuzz            run each fuzz target for a minute (needs a nightly toolchain)"
	@echo "make docs            generate docs/cli.md, run the tutorials and build the documentation's"
	@echo "                     pages into target/site"
	@echo "make packages        make every package in dist/ (docs/install.md); package-wheel,"
	@echo "                     package-wheel-emt, package-deb, package-tarball, package-image,"
	@echo "                     package-image-dra (needs Go) and"
	@echo "                     package-crates make one"
	@echo "make test-packages   use every package in dist/ in a place without the sources"
	@echo "make release         make all of them and their checksums, the same bytes every time"
	@echo "make check-release   make the release again in another directory and compare the bytes"

# Without what no row of the table needs: `make install` builds all.
run: needs-run needs-cargo
	$(CARGO) build --release -p tierwise-cli --no-default-features
	$(TIERWISE) compare $(SCENARIOS) --html tierwise-report.html

# Both, as `make install` does: dependencies have the features of all that is built at once.
build: needs-cargo
	$(CARGO) build --release -p tierwise-cli -p tierwised

# Where distributions keep what they did not install. DESTDIR is for packagers, and so is
# RUST_PROFILE=dist: optimised across crates, which takes several times as long to build.
PREFIX ?= /usr/local
RUST_PROFILE ?= release
install: needs-cargo recorder
	$(CARGO) build --profile $(RUST_PROFILE) -p tierwise-cli -p tierwised
	scripts/install.sh "$(DESTDIR)" "$(PREFIX)" "$${CARGO_TARGET_DIR:-target}/$(RUST_PROFILE)"

# Some steps use one CPU for minutes, so two of them run at once, the longest first. Their tools are
# installed before: two installations at a time would meet each other's lock.
TWO := $(MAKE) --no-print-directory --jobs=2 --output-sync=target

test: needs-test lint pure deny recorder docs-check needs-packages needs-python needs-emt \
		needs-browser needs-fleet
	$(CARGO) test --workspace --all-targets
	$(TWO) test-emt test-packages-dev
	$(TWO) test-python test-dashboard test-doc test-fleet test-install
	$(MAKE) --no-print-directory lab-smoke

# The examples of the crates' documentation. rustdoc warns of a jobserver that it cannot reach.
test-doc: needs-test
	MAKEFLAGS= $(CARGO) test --workspace --doc

test-install: needs-install recorder
	scripts/test-install.sh

PACKAGES := wheel wheel-emt deb tarball image image-dra crates

packages: $(PACKAGES:%=package-%)

$(PACKAGES:%=package-%): package-%: needs-packages
	scripts/release/$*.sh

package-image-dra: needs-go

# A release is of a commit, and of nothing that an earlier one left.
release:
	@git diff --quiet HEAD || { echo "release: commit or stash the changes first" >&2; exit 1; }
	rm -rf dist
	$(MAKE) --no-print-directory packages
	git rev-parse HEAD > dist/COMMIT
	scripts/release/checksums.sh

check-release: needs-packages
	scripts/release/check-release.sh

test-packages: needs-packages needs-image
	for package in $(PACKAGES); do scripts/release/test/$$package.sh || exit; done

# The packages with the programs that the other tests have, and what needs no build at all.
test-packages-dev: needs-packages recorder
	scripts/release/test-dev.sh

test-python: needs-cargo needs-python
	scripts/test-python.sh

test-emt: needs-emt
	PYTHON=$(PYTHON) scripts/test-emt.sh

# containerd comes as Debian's package, and runs without privilege and without containers.
test-fleet: needs-cargo needs-fleet
	scripts/build-dev.sh
	$(FLEET) --start-directory fleet/tests

fleet-test: test-fleet needs-go
	cd kubernetes/dra && go vet ./... && go test ./...
	mkdir -p target/fleet
	scripts/release/sbom-go.sh target/fleet/tierwise-dra.cdx.json
	$(FLEET) --start-directory fleet/long

# A node of Kubernetes with two memory tiers in a guest, on both kernels (NODE='--kernel 7': on
# one): an hour, and more for the first build of the kubelet.
fleet-node: tested needs-fleet needs-go needs-image
	TIERLAB_TESTED=$(CURDIR)/$(TESTED) $(PYTHON) -m fleet.node $(NODE)

# The delay that the daemon adds to the start of a container (docs/kubernetes.md).
fleet-bench: needs-cargo needs-go
	scripts/build-dev.sh
	$(PYTHON) -m fleet.delay

test-dashboard: needs-cargo needs-browser
	scripts/test-dashboard.sh

lint: needs-cargo needs-text
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p tierwise-cli --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps
	scripts/check-text.sh

# The core imports nothing: it is built for a machine that has no system at all.
pure: needs-pure
	scripts/check-pure.sh

deny: needs-cargo
	scripts/check-deny.sh

recorder:
	$(MAKE) --no-print-directory -C recorder

lab: needs-lab
	$(TIERLAB) build

lab-test: tested
	TIERLAB_TESTED=$(CURDIR)/$(TESTED) $(TIERLAB) test $(LAB)

# A few tests of each part, on both kernels.
lab-smoke: tested
	TIERLAB_TESTED=$(CURDIR)/$(TESTED) $(TIERLAB) test --smoke $(SMOKE)

tested: lab
	scripts/build-dev.sh
	mkdir -p $(TESTED)
	install --strip target/debug/tierwise target/debug/tierwised $(TESTED)
	python/emt/lab.sh
	cd lab && TIERLAB_TESTED=$(CURDIR)/$(TESTED) \
		$(PYTHON) -m unittest discover --quiet --start-directory unit

lab-bench: build recorder lab
	$(TIERLAB) bench

lab-shell: lab
	$(TIERLAB) shell

docs: needs-cargo needs-python
	scripts/build-dev.sh
	target/debug/tierwise reference > docs/cli.md.tmp
	mv docs/cli.md.tmp docs/cli.md
	scripts/build-site.sh

docs-check: needs-cargo
	scripts/check-docs.sh

fuzz: needs-cargo
	scripts/fuzz.sh

bench: needs-cargo
	scripts/bench/run.sh

record: build recorder
	cd recorder/workloads && TIERWISE=$(TIERWISE) python3 record_all.py

needs-cargo:
	@scripts/setup.sh rust

needs-text:
	@scripts/setup.sh python venv

needs-run:
	@scripts/setup.sh rust cc

needs-install:
	@scripts/setup.sh rust cc qemu

needs-python:
	@scripts/setup.sh cc python venv

needs-emt:
	@PYTHON=$(PYTHON) scripts/setup.sh cc python venv headers

needs-browser:
	@scripts/setup.sh python chromium

needs-packages:
	@scripts/setup.sh rust cc python venv musl debian-tools

needs-image:
	@scripts/setup.sh umoci

needs-fleet:
	@scripts/setup.sh python apt

needs-go:
	@scripts/setup.sh python go openssl

needs-lab:
	@scripts/setup.sh cc python lab

needs-pure:
	@scripts/setup.sh rust cc wasm

needs-test:
	@scripts/setup.sh rust cc wasm qemu valgrind

clean:
	$(CARGO) clean
	$(MAKE) --no-print-directory -C recorder clean
