# Two commands: `make run` starts a broker, `make test` checks everything that CI checks. `make proof`
# runs the random tests long, `make soak` loads a broker for twenty minutes, `make mutants` looks for
# wrongs that no test notices, `make audit` asks for known faults of what we depend on, `make bench`
# measures (about an hour; SCALE=0.1 RUNS=1 for a look), `make lowest` runs the suite on the oldest
# versions that pyproject.toml allows, `make containers` follows the pages about containers on a real
# engine. All of them keep what they install in .venv; a stamp file there says that it matches
# pyproject.toml.

VENV    := .venv
BIN     := $(VENV)/bin
ADDR    ?= 127.0.0.1:6754
WORKERS ?= 2

RUNS    ?= 5
SCALE   ?= 1

.PHONY: run test lowest containers proof soak mutants audit bench lint format clean
.DELETE_ON_ERROR:

run: $(VENV)/.installed
	@exec $(BIN)/mqlite serve --addr $(ADDR)

# One line per layer: its name, then its command. The first failure ends the run.
test: $(VENV)/.installed-test
	@: > $(VENV)/seconds
	$(call layer,ruff check,$(BIN)/ruff check .)
	$(call layer,ruff format,$(BIN)/ruff format --check .)
	$(call layer,mypy,$(BIN)/mypy)
	$(call layer,imports,$(BIN)/lint-imports)
	$(call layer,pytest,$(BIN)/pytest -n $(WORKERS))
	@echo; echo "seconds per layer:"; cat $(VENV)/seconds

# What users install at its lowest, what tests are made with at its newest. TESTS="tests/sdk" for a part.
TESTS   ?=
lowest:
	WORKERS=$(WORKERS) .ci/lowest $(TESTS)

# The pages about containers, followed on the Docker engine of this machine; some minutes.
containers: $(VENV)/.installed-test
	MQLITE_CONTAINERS=1 $(BIN)/python -m pytest -x tests/deploy/test_engine.py

# The same tests that CI runs a slice of, long: an hour on two cores, and two more for the last layer.
# Each prints the seed that repeats it. A layer that has passed on this very product is not run again;
# AGAIN=1 runs all of them, LAYERS="power crashes" some. Their tests and sizes stand in tests/proof.py.
LAYERS  ?=
AGAIN   ?=
proof: $(VENV)/.installed-test
	$(BIN)/python -m tests.proof --workers $(WORKERS) $(if $(AGAIN),--again) $(LAYERS)

# A broker under every kind of load, with workers that are killed: nothing may grow or be lost.
SOAK    ?= 1200
soak: $(VENV)/.installed-test
	MQLITE_SOAK_SECONDS=$(SOAK) MQLITE_PROOF=$(abspath $(VENV))/proof.jsonl \
		$(BIN)/pytest -o faulthandler_timeout=10000 -s tests/soak

# Small wrongs in the program, one at a time: is there a test that notices? A few hours; MOST=20 tries
# a sample of each part, PARTS="engine/group.py" one part, SINCE=a1b2c3d what has changed since a commit.
MOST    ?= 0
SINCE   ?=
mutants: $(VENV)/.installed-test
	MQLITE_PROOF=$(abspath $(VENV))/proof.jsonl $(BIN)/python -m tests.mutants $(PARTS) --most $(MOST) \
		$(if $(SINCE),--since $(SINCE))

# What we depend on, against the faults that are known of it. It asks a service on the network, and fails
# where that cannot be asked.
AUDIT := $(VENV)/audit
audit: $(VENV)/.installed
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/installed.txt
	$(BIN)/python -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'
	$(AUDIT)/bin/pip-audit --requirement $(VENV)/installed.txt --no-deps --disable-pip --strict

# The load generator and the peers come from the distribution where that is possible; what is not
# there is left out of the table, and named.
bench: $(VENV)/.installed-bench
	@bench/servers
	$(BIN)/python -m bench --runs $(RUNS) --scale $(SCALE) --docs --json $(VENV)/bench.json

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

define layer
@echo "== $(1)"; began=$$(date +%s); $(2) || exit 1; \
	printf '  %-12s %4d\n' "$(1)" $$(( $$(date +%s) - began )) >> $(VENV)/seconds
endef

# The stamp is written last, so that an interrupted install starts over.
$(VENV)/.made: .ci/venv
	@.ci/venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	$(call install,.[all])
	@touch $@

$(VENV)/.installed-test: $(VENV)/.made pyproject.toml
	$(call install,.[all$(comma)test])
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.made pyproject.toml
	$(call install,.[all$(comma)bench])
	@touch $@ $(VENV)/.installed

comma := ,
define install
@echo "installing $(1) into $(VENV) (about a minute the first time)"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)'
endef
