# Every target does its own set-up in .venv; `make` alone lists them.
# PYTEST_ARGS="-x -k join" goes to pytest, PROFILE=nightly to the property tests.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
PYTEST := $(BIN)/python -m pytest $(PYTEST_ARGS)
# a process per core; what runs on Spark has the cores to itself
MANY  := -n logical --dist worksteal -q
# for what runs on Spark: the Java that was found; empty when there is none
JAVA  := JAVA_HOME="$$(tools/find-java 2>/dev/null || true)"

.PHONY: help setup demo test check lint types unit golden property few spark kill faults kafka bench docs clean

help: ## list the targets
	@echo "Penstock: very many standing SQL queries, exact over live streams"
	@echo
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with pinned dependencies and compiled kernels; look for Java

$(STAMP): pyproject.toml constraints.txt tools/find-python tools/find-java
	@java=$$(tools/find-java --install) && echo "==> Java in $$java" || true
	@if [[ ! -x $(BIN)/python ]]; then \
	  python=$$(tools/find-python); \
	  echo "==> creating $(VENV) with $$python"; \
	  "$$python" -m venv $(VENV); \
	fi
	@echo "==> installing pinned dependencies"
	@$(BIN)/python -m pip install --quiet -c constraints.txt setuptools
	@$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[dev]'
	@if [[ -f src/penstock/warm.py ]]; then \
	  echo "==> compiling kernels, recording Spark's classes (once; kept in a cache)"; \
	  $(JAVA) $(BIN)/python -m penstock.warm; \
	fi
	@touch $@

demo: setup ## 10 million rows of network traffic, 1,005 standing queries, on Spark
	@$(JAVA) $(BIN)/penstock demo

test: setup ## everything CI runs: ruff, mypy, unit, golden, property, Spark tests, documentation
	@$(MAKE) check

check: lint types unit golden property few spark docs ## the checks of `make test`

lint: setup ## ruff
	@echo "==> ruff"
	@$(BIN)/ruff check src tests $(wildcard benchmarks)
	@$(BIN)/ruff format --check --quiet src tests $(wildcard benchmarks) || \
	  { echo "run: $(BIN)/ruff format src tests benchmarks"; exit 1; }

types: setup ## mypy --strict on src/
	@echo "==> mypy"
	@$(BIN)/mypy

unit: setup ## unit tests
	@echo "==> unit tests"
	@$(PYTEST) $(MANY) tests/unit $(wildcard tests/oracle) --ignore=tests/unit/test_docs.py

golden: setup ## golden files: schema, timed input, SQL, expected changelog, EXPLAIN
	@echo "==> golden tests"
	@if [[ -d tests/golden ]]; then $(PYTEST) $(MANY) tests/golden; else echo "none yet"; fi

property: setup ## random plans and streams against DuckDB (PROFILE=ci|nightly)
	@echo "==> property tests"
	@if [[ -d tests/property ]]; then PENSTOCK_PROFILE=$(or $(PROFILE),ci) $(PYTEST) $(MANY) tests/property; else echo "none yet"; fi

few: setup ## a few faults without Spark: damaged files, full disks, broken functions, odd rows
	@echo "==> faults"
	@$(PYTEST) $(MANY) tests/faults $(addprefix --ignore=,$(wildcard tests/faults/test_spark_*.py))

spark: setup ## tests on a real, local Spark (needs Java)
	@echo "==> Spark tests"
	@$(JAVA) $(PYTEST) $(if $(PYTEST_ARGS),,-n 2 --dist loadfile --no-loadscope-reorder) tests/spark tests/faults/test_spark_*.py

kill: setup ## kill drivers and workers at every point; slow (make spark tests a few points)
	@echo "==> kill tests"
	@$(JAVA) PENSTOCK_KILL=all $(PYTEST) tests/spark/test_kill.py

faults: setup ## every fault: kills, damaged files, full disks, floods; slow (make test runs a few)
	@echo "==> faults"
	@$(JAVA) PENSTOCK_FAULTS=all $(PYTEST) tests/faults

kafka: setup ## Kafka sources and sinks, on a test broker (needs Java and Maven)
	@echo "==> Kafka and Spark's connector, into .kafka"
	@tools/fetch-kafka "$(CURDIR)/.kafka" "$$($(BIN)/python -c 'import pyspark; print(pyspark.__version__)')"
	@echo "==> Kafka tests"
	@$(JAVA) PENSTOCK_KAFKA_JARS="$(CURDIR)/.kafka" $(PYTEST) tests/spark/test_kafka.py

docs: setup ## execute the snippets of README and docs/ (those that need Spark: make spark)
	@echo "==> documentation"
	@$(PYTEST) tests/unit/test_docs.py

bench: setup ## run every benchmark, write benchmarks/results/*.json
	@$(BIN)/python -m benchmarks.run --all --out benchmarks/results

clean: ## remove the virtual environment, caches and results
	rm -rf $(VENV) .kafka .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/results build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
