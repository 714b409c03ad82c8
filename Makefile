# weft on a fresh machine: Python 3.11 or newer and make are all it takes.
PYTHON ?= python3
BIN := .venv/bin
# uv is used where it is installed, because it is fast; plain pip does the same.
PIP := $(if $(shell command -v uv 2>/dev/null),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help install train test lint bench clean

help: ## show these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-9s %s\n", $$1, $$2}'

install: .venv/installed ## make .venv and install weft in it, with what recording videos needs

train: .venv/installed ## train PPO on CartPole-v1 until it balances (a few seconds)
	$(BIN)/weft train ppo CartPole-v1 --steps 150000

test: .venv/tested-with ## run the whole test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: .venv/tested-with ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/tested-with ## measure weft beside its peers (installs them under .cache/peers; two hours)
	$(BIN)/python benchmarks/all.py

clean: ## remove .venv and caches, keep runs
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "weft needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --constraint constraints.txt --editable ".[video]"
	@touch $@

.venv/tested-with: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --constraint constraints.txt --editable ".[test]"
	@touch $@ .venv/installed
