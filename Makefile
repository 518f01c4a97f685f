# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help

help: ## this list
	@if [ -t 1 ]; then bold='\033[1m' plain='\033[0m'; fi; \
	awk -F':.*## ' -v b="$$bold" -v p="$$plain" '/^[a-z-]+:.*## / {printf "  " b "%-14s" p " %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("gpu-runtime needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=python3.x") if sys.version_info < (3, 11) else None'
	@echo "setting up .venv (once; about a minute)"
	@$(PYTHON) -m venv .venv || { echo "no venv module: install it (Debian: apt install python3-venv)"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

setup: .venv/.ready ## make .venv with the pinned dependencies

run: .venv/.ready ## everything on this machine; Ctrl-C stops it, what was created stays
	@$(BIN)/gpu-runtime up

test: .venv/.ready ## unit and local tests: needs only Python
	@$(BIN)/python hack/ci.py unit local

test-unit: .venv/.ready ## pure tests, no server
	$(BIN)/pytest -q tests/unit

test-local: .venv/.ready ## tests on the embedded cluster
	$(BIN)/pytest -q tests/local

build-kube: .venv/.ready ## build the programs of a real Kubernetes, once (needs go, 5 minutes)
	@PYTHONPATH=hack $(BIN)/python -m realkube build

test-kube: build-kube ## tests on a real Kubernetes API server
	$(BIN)/pytest -q tests/kube

test-faults: build-kube ## crashes, races and watch faults
	$(BIN)/pytest -q tests/faults

check: .venv/.ready ## format, lint, types, layers, generated files
	@$(BIN)/python hack/ci.py check

fix: .venv/.ready ## format and apply safe lint fixes
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

manifests: .venv/.ready ## write the files under config/ that follow from the types and processes
	$(BIN)/python hack/generate.py manifests

generate: .venv/.ready ## write every other generated file: the OpenAPI document and docs/processes.md
	$(BIN)/python hack/generate.py openapi docs

swagger: generate ## the same, by the name that people look for

ci: .venv/.ready ## everything CI runs, with a line a step
	@$(BIN)/python hack/ci.py --strict check unit build local kube faults mutants

mutants: .venv/.ready ## change each guarded line of the source and show that its test fails (ARGS="-k NAME")
	PYTHONPATH=hack $(BIN)/python hack/mutants.py $(ARGS)

soak: .venv/.ready ## randomised tests with new seeds (MINUTES=5 SEED= ROUNDS=)
	@PYTHONPATH=hack $(BIN)/python hack/soak.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS))

cluster-up: .venv/.ready ## a complete real Kubernetes on this machine (root; Debian)
	PYTHONPATH=hack $(BIN)/python -m realkube up

cluster-down: .venv/.ready ## stop it and leave nothing behind
	PYTHONPATH=hack $(BIN)/python -m realkube down

gpu-check: .venv/.ready ## on a machine with an NVIDIA GPU: what a pod with one and a pod without see
	@$(BIN)/pip install --quiet --disable-pip-version-check 'nvidia-ml-py>=13'
	@PYTHONPATH=hack $(BIN)/python hack/real_gpu.py

bench: .venv/.ready ## rates and ratios on the real API server; nothing asserts a time
	PYTHONPATH=hack $(BIN)/python -m benchmarks

lock: .venv/.ready ## re-pin requirements/ from pyproject.toml
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml --group dev -o requirements/dev.txt

clean: ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis build dist

.PHONY: help setup run test test-unit test-local build-kube test-kube test-faults check fix manifests generate swagger ci mutants soak cluster-up cluster-down gpu-check bench lock clean
