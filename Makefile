# Everything here needs Python 3.11 or newer and make, nothing else. PYTHON=… names the interpreter (command, path or version).

PYTHON ?=
ONCE ?=
TEST_JOBS ?= 4
VERSIONS ?= 3.11 3.12 3.13
BIN := .venv/bin
CHECKED := $(wildcard src bench tools tests examples)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup run test test-full check pins bench soak soak-redis soak-schedules soak-cron soak-pools clean clean-example env-example env-all

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "make %-15s %s\n", $$1, $$2 }'

setup: env-all ## create .venv with everything optional
	@echo "Ready: $(BIN)/workfleet"

run: env-example ## run the example fleet; ONCE=1: until everything is done
	@$(BIN)/python examples/media/fill.py
	@$(BIN)/workfleet run examples/media/app.py --log-format console$(if $(filter-out 0,$(ONCE)), --until-idle)

test: check ## the checks and the fast tests (at most ten minutes, installation included)
	@$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal

test-full: check ## everything on the first Python of VERSIONS, the fast tests on the others
	@marks="full or not full"; for version in $(VERSIONS); do \
		python=$$(tools/env.sh --find $$version) || { echo "Python $$version: not found, skipped"; continue; }; \
		tools/env.sh .venvs/$$version all "$$python" || exit 1; \
		echo "Python $$version"; \
		.venvs/$$version/bin/python -m pytest -n $(TEST_JOBS) --dist worksteal -m "$$marks" || exit 1; \
		marks="not full"; \
	done

# $(call step,NAME,COMMAND): one line when it passes, the whole output when it fails.
define step
	@out=$$($(2) 2>&1) && printf '%-16s ok\n' '$(1)' || { printf '%-16s failed\n%s\n' '$(1)' "$$out"; exit 1; }
endef

check: env-all ## formatting, lint, layers, types, file sizes
	@$(BIN)/python tools/check_sizes.py
	$(call step,ruff format,$(BIN)/ruff format --check --quiet $(CHECKED))
	$(call step,ruff check,$(BIN)/ruff check $(CHECKED))
	$(call step,import layers,$(BIN)/lint-imports --no-logo)
	$(call step,mypy --strict,$(BIN)/mypy src bench tools $(wildcard tests/typing examples/media))

pins: ## renew constraints.txt to the newest releases that pyproject.toml allows
	@tools/env.sh .venvs/3.11 all 3.11
	@.venvs/3.11/bin/python tools/pin.py

bench: env-all ## measure beside other libraries, write docs/benchmarks.md
	@$(BIN)/python -m bench

soak: env-all ## eight workers on one SQLite file, one killed every second, for SECONDS=300 with JOBS=50000
	@$(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(JOBS),--jobs $(JOBS))

soak-redis: env-all ## four workers on a server that is stopped, then killed, every 20 s, for SECONDS=300 with JOBS=100000 each
	@$(BIN)/python -m tests.soak --redis $(if $(SECONDS),--seconds $(SECONDS)) $(if $(JOBS),--jobs $(JOBS))

soak-schedules: env-all ## SCHEDULES=100 due every second for SECONDS=180, by PROCESSES=8 with wrong clocks, one killed every second
	@$(BIN)/python -m tests.soak.schedules $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SCHEDULES),--schedules $(SCHEDULES)) $(if $(PROCESSES),--processes $(PROCESSES))

soak-cron: env-all ## the cron arithmetic beside slow answers at every change of every clock in tzdata (at most 15 minutes)
	@$(BIN)/python -m tests.schedules.soak_cron

soak-pools: env-all ## pools of three children, each five seconds of calls, kills, sizes and ends at random, for SECONDS=300
	@$(BIN)/python -m tests.soak.pools $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

clean: ## remove environments, caches and builds (not the example's data)
	@rm -rf .venv .venvs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

clean-example: ## forget what the example did: its data and its store (the inbox stays)
	@rm -rf examples/media/data examples/media/.workfleet .workfleet

env-example:
	@tools/env.sh .venv example "$(PYTHON)"

env-all:
	@tools/env.sh .venv all "$(PYTHON)"
