# `make` sets up .venv and says what to do next; every other target sets it up too.
#
#   make run                                  judge the bundled reference server
#   make run TARGET=http://host:8000/v1       judge a server of yours
#            MODEL=m API_KEY_ENV=VAR SUITE=sse,done LEVEL=should ARGS="--samples 3"
#   make engines                             list the real engines that can be installed and judged
#   make engines ENGINES="vllm-0.32.0:copy mlx-lm-0.32.2" ARGS="--suite sse"
#   make test | lint | bench | docs | clean
#
# make itself ends with 2 whenever a command fails; the code that it prints ("Error 1") is
# wireproof's: 1 a rule is broken, 2 usage, 3 the target cannot be judged.

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build

PY = $(VENV)/bin/python
READY = $(VENV)/.ready
WIREPROOF = $(VENV)/bin/wireproof

TARGET ?=
MODEL ?=
API_KEY_ENV ?=
SUITE ?=
LEVEL ?=
ARGS ?=
ENGINES ?=

OPTIONS = $(if $(MODEL),--model '$(MODEL)') $(if $(API_KEY_ENV),--api-key-env '$(API_KEY_ENV)') \
	$(if $(SUITE),--suite '$(SUITE)') $(if $(LEVEL),--level '$(LEVEL)') $(ARGS)

.PHONY: ready run engines test lint bench docs clean

ready: $(READY)
	@echo "wireproof is set up in $(VENV). Next:"
	@echo "  make run                                 judges the bundled reference server"
	@echo "  make run TARGET=http://host:8000/v1      judges yours"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=python3.12" >&2; exit 1; }
	@if command -v uv >/dev/null 2>&1; then \
	  test -x $(PY) || uv venv --quiet --python "$(PYTHON)" $(VENV) || exit 1; \
	  uv pip install --quiet --python $(PY) --group dev --editable . || exit 1; \
	else \
	  test -x $(PY) || $(PYTHON) -m venv $(VENV) || \
	    { echo "python3-venv (Debian, Ubuntu) or uv is needed" >&2; exit 1; }; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1" || exit 1; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --group dev --editable . || exit 1; \
	fi
	@touch $(READY)

run: $(READY)
	@$(WIREPROOF) run $(if $(TARGET),'$(TARGET)',--reference) \
	  $(OPTIONS) -o $(BUILD)/run.jsonl --html $(BUILD)/report.html

engines: $(READY)
	@$(PY) -m wireproof.runners $(if $(ENGINES),run $(ENGINES) --out $(BUILD)/engines --html -- $(OPTIONS),list)

test: lint
	$(PY) -m pytest tests -q -n auto --maxprocesses 8 --dist loadfile

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	PYTHON="$(abspath $(PY))" tests/typecheck.sh
	@cd build/types && "$(abspath $(VENV))/bin/lint-imports" --no-cache --no-logo ../../pyproject.toml

bench: $(READY)
	@for script in bench/bench_*.py; do \
	  test -f "$$script" || { echo "bench/ has no bench_*.py yet"; exit 0; }; \
	  echo "$$script"; $(PY) "$$script" || exit 1; \
	done

docs: $(READY)
	$(PY) -m wireproof.docs

clean:
	rm -rf $(VENV) $(BUILD) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
