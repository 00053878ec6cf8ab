# Everything here works from any state: first time, again, or after an interrupted set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/hindsight-fast

# A GPU build where an NVIDIA driver answers, a CPU build elsewhere (override: make demo EXTRA=cpu).
EXTRA ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-export test-integrations check bench bench-rivals clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-13s %s\n", $$1, $$2}'

setup:  ## the virtual environment with hindsight-fast in it
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) $(EXTRA)

demo: setup  ## score the embedded example: the main job in one look
	@$(RUN) models get minilm
	@$(RUN) demo

test:  ## the tests (set-up fetches a small real model for them)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) $(EXTRA) test
	@$(RUN) models get minilm
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

test-slow:  ## the tests that take minutes
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) $(EXTRA) test
	@$(RUN) models get minilm
	$(BIN)/python -m pytest -m slow

test-export:  ## exported graphs against torch and the adapters library (own environment)
	@PYTHON="$(PYTHON)" CONSTRAINTS=constraints-export.txt \
		sh scripts/setup.sh .venv-export cpu test export
	.venv-export/bin/python -m pytest -m export -s tests/test_export_torch.py

test-integrations:  ## a real run of TRL with our reward (own environment, torch)
	@PYTHON="$(PYTHON)" CONSTRAINTS=constraints-integrations.txt \
		sh scripts/setup.sh .venv-integrations cpu test integrations
	.venv-integrations/bin/python -m pytest -m integration tests/test_integration_trl.py

check:  ## ruff, mypy and pyright (strict), import-linter
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) $(EXTRA) test check bench
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

bench:  ## what this machine reaches (half an hour, quiet machine)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) $(EXTRA) bench
	@$(RUN) models get minilm
	$(BIN)/python -m benchmarks.run

bench-rivals:  ## encoding beside what else people would use (own environment, 20 minutes)
	@PYTHON="$(PYTHON)" CONSTRAINTS=constraints-export.txt \
		sh scripts/setup.sh .venv-export cpu test export rivals
	@.venv-export/bin/hindsight-fast models get minilm
	.venv-export/bin/python -m benchmarks.run --rivals

clean:  ## remove the virtual environment and caches, never data
	rm -rf $(VENV) .venv-export .venv-integrations .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache bench-out
