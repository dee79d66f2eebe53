# The two commands to know: `make run` and `make test`. `make help` lists the others.

CARGO ?= cargo
TIERWISE := target/release/tierwise
# A third of the resident set in fast memory, all policies, every recorded program.
SCENARIOS := scenarios/recorded/*.toml

.PHONY: help run test lint deny pure build recorder docs docs-check fuzz bench record test-python needs-cargo needs-run needs-test \
	needs-python clean

help:
	@echo "make run       build, compare every policy on the recorded programs, write tierwise-report.html"
	@echo "make test      everything that must hold: formats, lints, licences, purity, docs, tests"
	@echo "make test-python  build the Python package into target/venv and run its tests (part of make test)"
	@echo "make recorder  build the QEMU plugin that records programs"
	@echo "make record    record the shipped traces again (takes about an hour)"
	@echo "make bench     measure; docs/performance.md says what was measured where"
	@echo "make fuzz      a minute of each fuzz target (needs a nightly toolchain)"
	@echo "make docs      generate docs/cli.md again"

run: needs-run build
	$(TIERWISE) compare $(SCENARIOS) --html tierwise-report.html

build: needs-cargo
	$(CARGO) build --release -p tierwise-cli

test: needs-test lint pure deny recorder docs-check
	$(CARGO) test --workspace --all-targets
	$(CARGO) test --workspace --doc
	$(MAKE) --no-print-directory test-python

test-python: needs-cargo needs-python
	scripts/test-python.sh

lint: needs-cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# The core imports nothing: it is built for a machine that has no system at all.
pure: needs-cargo
	scripts/check-pure.sh

deny: needs-cargo
	scripts/check-deny.sh

recorder:
	$(MAKE) --no-print-directory -C recorder

docs: needs-cargo
	$(CARGO) run --quiet -p tierwise-cli -- reference > docs/cli.md.tmp
	mv docs/cli.md.tmp docs/cli.md

docs-check: needs-cargo
	scripts/check-docs.sh

fuzz: needs-cargo
	scripts/fuzz.sh

bench: needs-cargo
	scripts/bench/run.sh

record: build recorder
	cd recorder/workloads && TIERWISE=$(CURDIR)/$(TIERWISE) python3 record_all.py

needs-cargo:
	@scripts/setup.sh rust

needs-run:
	@scripts/setup.sh rust cc

needs-python:
	@scripts/setup.sh cc python venv

needs-test:
	@scripts/setup.sh rust cc wasm qemu valgrind

clean:
	$(CARGO) clean
	$(MAKE) --no-print-directory -C recorder clean
