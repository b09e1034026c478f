# `make run` starts everything; each target first makes what it needs.
MAKEFLAGS += --no-print-directory --no-builtin-rules
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --quiet --quiet --disable-pip-version-check
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
CLIENTS := .venv-clients
CLIENTS_READY := $(CLIENTS)/.ready
AGENTS := .venv-agents
AGENTS_READY := $(AGENTS)/.ready

PROTO_FILES := $(shell cd protos && find omniroute -name '*.proto' | sort)
PROTOC = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I protos \
	--python_out=$(1) --grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet:$(1) $(PROTO_FILES)
LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --upgrade \
	--no-emit-index-url --no-annotate --no-header --quiet

.PHONY: help setup dev run test test-full clients-full check check-format check-lint check-types check-imports \
	check-protos fmt docs docs-check transcripts run-real-model smoke-live smoke-remote bench bench-beside protos \
	protos-baseline lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(RUN_READY) ## make .venv with what `run` needs

dev: $(DEV_READY) ## make .venv with the tools of `check` and `test` too

$(BIN)/pip:
	@python="$$(.ci/python)"; echo "making $(VENV) with $$python"; "$$python" -m venv --clear $(VENV)

$(RUN_READY): requirements.txt pyproject.toml | $(BIN)/pip
	@echo "installing what the services need"
	@$(PIP) install --require-hashes --requirement requirements.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

$(DEV_READY): requirements-dev.txt $(RUN_READY)
	@echo "installing the development tools"
	@$(PIP) install --require-hashes --requirement requirements-dev.txt
	@touch $@

# The clients of other makers have pins of their own, so an environment of their own.
$(CLIENTS_READY): requirements-clients.txt | $(DEV_READY)
	@echo "installing other makers' clients into $(CLIENTS)"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(CLIENTS)
	@$(BIN)/uv pip install --quiet --python $(CLIENTS)/bin/python --require-hashes --requirement requirements-clients.txt
	@touch $@

$(AGENTS_READY): | $(DEV_READY)
	@echo "installing agents into $(AGENTS)"
	@npm install --silent --no-fund --no-audit --prefix $(AGENTS) @openai/codex@0.171.0 opencode-ai@1.18.33
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(AGENTS)/aider
	@$(BIN)/uv pip install --quiet --python $(AGENTS)/aider/bin/python aider-chat==0.86.2
	@touch $@

run: $(RUN_READY) ## start the three services; Ctrl-C stops them
	@exec $(BIN)/omnictl up

test: $(DEV_READY) $(CLIENTS_READY) ## the suite of CI
	@$(BIN)/python -m pytest -m "not full" -n 2 --dist loadfile -q

test-full: test ## the long tests too, one after the other
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --group full
	@$(BIN)/python -m pytest -m full -q

clients-full: $(AGENTS_READY) ## Codex, opencode and aider through the gateway; needs npm
	@$(BIN)/python -m pytest -q tests/clients/test_agents.py

check: check-format check-lint check-types check-imports check-protos docs-check ## format, lint, types, imports, contract, docs

check-format: $(DEV_READY)
	$(BIN)/ruff format --check --quiet .

check-lint: $(DEV_READY)
	$(BIN)/ruff check --quiet .

check-types: $(DEV_READY)
	$(BIN)/mypy

check-imports: $(DEV_READY)
	$(BIN)/lint-imports --no-logo

check-protos: $(DEV_READY)
	$(BIN)/buf format --diff --exit-code protos
	$(BIN)/buf lint
	$(BIN)/buf breaking --against protos/baseline.binpb
	@fresh="$$(mktemp -d)"; trap 'rm -rf "$$fresh"' EXIT; \
	$(call PROTOC,"$$fresh"); \
	diff --recursive --brief --exclude=__pycache__ "$$fresh" protos/gen \
		|| { echo "generated stubs are not current: run make protos"; exit 1; }

fmt: $(DEV_READY) ## format code and protos, fix what can be fixed
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .
	$(BIN)/buf format --write protos

docs: $(DEV_READY) ## write the generated parts of docs anew
	@$(BIN)/python -m docs_build

docs-check: $(DEV_READY)
	$(BIN)/python -m docs_build --check

transcripts: $(DEV_READY) ## write tests/transcripts anew with what the kernel does now
	@$(BIN)/python -m tests.transcripts

bench-beside: $(DEV_READY) ## the kernel beside LiteLLM's Router, which gets an environment of its own
	@test -x .venv-litellm/bin/litellm || { $(BIN)/python -m venv .venv-litellm && .venv-litellm/bin/pip install -q litellm; }
	@$(BIN)/python -m bench.beside .venv-litellm/bin/python

run-real-model: $(DEV_READY) ## chat through `auto` with a small real model on the processor
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --group model
	@$(BIN)/python -m tests.smoke real-model

# Of both: MODELS="provider/model ..." are asked too, MAX_TOKENS limits each answer.
SMOKE = $(BIN)/python -m tests.smoke $(1) $(MODELS:%=--model '%') $(MAX_TOKENS:%=--max-tokens '%')

smoke-live: $(DEV_READY) ## check the providers whose keys are in the environment
	@$(call SMOKE,live)

smoke-remote: $(DEV_READY) ## check the gateway at BASE_URL with OMNIROUTE_API_KEY; FAILOVER=1 makes it fail over
	@test -n "$(BASE_URL)" || { echo "usage: make smoke-remote BASE_URL=http://host:port [FAILOVER=1]" >&2; exit 2; }
	@$(call SMOKE,remote) $(if $(filter-out 0,$(FAILOVER)),--failover) '$(BASE_URL)'

bench: $(DEV_READY) ## benchmarks; the last line is one JSON object of figures
	@$(BIN)/python -m bench

protos: $(DEV_READY) ## regenerate protos/gen
	$(call PROTOC,protos/gen)

protos-baseline: $(DEV_READY) ## at a release: what later changes must stay compatible with
	$(BIN)/buf build --output protos/baseline.binpb

lock: $(DEV_READY) ## renew the pinned requirements
	$(LOCK) pyproject.toml --output-file requirements.txt
	$(LOCK) pyproject.toml --group dev --output-file requirements-dev.txt
	$(LOCK) --group clients --output-file requirements-clients.txt
	@touch $(RUN_READY) $(DEV_READY)

clean: ## remove what can be made again, but never data
	rm -rf $(VENV) $(CLIENTS) $(AGENTS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
