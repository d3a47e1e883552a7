# One command each; every target installs what it needs into .venv first.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The first Python on the path that is new enough.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := $(wildcard analyzers collector dashboard exporters)
SCANNER := $(wildcard src/profsuite/trace/*.[ch])
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check
PYTEST ?= $(BIN)/python -m pytest -n auto

.PHONY: help demo test gpu-test test-lowest consumers check format bench fuzz docs dist clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# ---------------------------------------------------------------- environment
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "profsuite needs Python 3.11 or newer: install it, or name it: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null \
		|| { $(PYTHON) -m venv --without-pip --clear $(VENV) && $(PYTHON) -m pip --python $(VENV) install -q pip; } \
		|| { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: apt install python3-venv)" >&2; exit 2; }

# Installed for use (demo) or for development; stamps keep repeated calls quick.
$(VENV)/.use: $(BIN)/python pyproject.toml setup.py constraints.txt $(SCANNER)
	$(PIP) install -q -c constraints.txt -e .
	@touch $@

# On a machine without a GPU the CPU build of torch is enough.
$(VENV)/.torch: $(BIN)/python pyproject.toml setup.py constraints.txt $(SCANNER)
	$(PIP) install -q -c constraints.txt -e '.[torch]'
	@touch $@ $(VENV)/.use

$(VENV)/.dev: $(BIN)/python pyproject.toml setup.py constraints.txt $(SCANNER)
	$(PIP) install -q -c constraints.txt -e '.[dev,torch,integrations]'
	@touch $@ $(VENV)/.use

# ---------------------------------------------------------------- targets
demo: $(VENV)/.torch ## record a training run on the CPU and analyse it
	@rm -rf demo/train_small
	$(BIN)/python examples/train_small.py --output demo/train_small
	$(BIN)/profsuite analyze demo/train_small

test: $(VENV)/.dev ## install and run all tests
	$(PYTEST)

gpu-test: $(VENV)/.dev ## the tests that need a GPU and a CUDA build of torch in .venv
	$(BIN)/python -m pytest -m gpu -v

test-lowest: ## run the tests with the lowest versions that pyproject.toml allows
	@$(MAKE) --no-print-directory VENV=build/lowest build/lowest/.lowest
	build/lowest/bin/python -m pytest -n auto

$(VENV)/.lowest: $(BIN)/python pyproject.toml setup.py
	$(PIP) install -q $$($(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*[d.replace('>=', '==') for d in p['dependencies']])") \
		pytest pytest-xdist hypothesis jsonschema psutil
	$(PIP) install -q --no-deps -e .
	@touch $@

# Each in an environment of its own, as their requirements exclude one another: pandas 2 and 3, old setuptools.
consumers: ## install the tools that tests/exporters/consumers holds exported files against (600 MB)
	@set -e; for what in "xprof xprof" "torch-tb-profiler torch-tb-profiler setuptools<80" "traceinsight traceinsight==0.6.1 pandas<3"; do \
		set -- $$what; name=$$1; shift; \
		$(PYTHON) -m venv build/consumers/$$name; \
		build/consumers/$$name/bin/python -m pip --disable-pip-version-check install -q "$$@"; \
	done

# mypy knows no package-dir: show it the installed layout, as links.
build/types: $(wildcard src/profsuite/*) $(PACKAGES)
	@rm -rf $@ && mkdir -p $@/profsuite
	@ln -s $(CURDIR)/src/profsuite/* $(addprefix $(CURDIR)/,$(PACKAGES)) $@/profsuite/

check: $(VENV)/.dev build/types ## ruff, mypy --strict and the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST)

format: $(VENV)/.dev ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## measure against the numbers in docs
	$(BIN)/python benchmarks/run.py && status=0 || status=$$?; \
		$(BIN)/python benchmarks/recording.py || status=$$?; exit $$status

fuzz: $(VENV)/.dev ## fuzz the C scanner
	$(MAKE) -C fuzz PYTHON=$(abspath $(BIN)/python)

docs: $(VENV)/.dev ## regenerate docs/reference
	$(BIN)/python docs/generate.py

dist: $(VENV)/.dev ## build the sdist and the wheel into dist/
	$(PIP) install -q build && $(BIN)/python -m build

clean: ## remove what the targets made
	rm -rf build dist demo $(VENV) *.egg-info src/*.egg-info src/profsuite/trace/*.so
