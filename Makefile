# Two commands do everything on a fresh machine with Python 3.11+ and make:
#   make demo    the main job, end to end
#   make test    the tests of the core install
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# one thread per worker, since there is one worker per core; and ledgers sync every write, which memory does at once
FAST := OMP_NUM_THREADS=1 $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)

.DEFAULT_GOAL := help
.PHONY: help demo installs test test-all test-long test-torch test-dpsgd test-files test-flower test-mhe test-quorum test-browser test-release test-oldest matrix screenshots bench docs docs-check lint format dist licences locks clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# CPython 3.11 on Linux installs from locks/, others by the ranges in pyproject.toml
LOCKS := pyproject.toml $(wildcard locks/*.txt)
INSTALL = $(BIN)/python tools/install.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: $(LOCKS) | $(BIN)/python
	$(INSTALL)
	@touch $@

$(VENV)/test: $(LOCKS) | $(BIN)/python
	$(INSTALL) test
	@touch $@ $(VENV)/core

$(VENV)/dev: $(VENV)/test
	$(INSTALL) dev
	@touch $@

demo: $(VENV)/core ## 100 clients agree on a config by a private vote (under 2 minutes)
	rm -rf runs/demo
	$(BIN)/hushtune run examples/digits.toml --out runs/demo

test: $(VENV)/test ## tests of the core install
	$(FAST) $(BIN)/pytest -n $(JOBS)

test-long: $(VENV)/test ## long tests: random sums, mutated messages, kill -9 under masks, whole runs
	$(FAST) $(BIN)/pytest -n $(JOBS) -m long

$(VENV)/browser: $(VENV)/dev
	$(INSTALL) browser
	@touch $@

test-browser: $(VENV)/browser ## the report in headless Chromium (Debian packages chromium and chromium-driver)
	$(BIN)/pytest -m browser

$(VENV)/torch: $(VENV)/dev
	$(INSTALL) torch
	@touch $@

test-torch: $(VENV)/torch ## batched training of networks
	$(BIN)/pytest -m torch

$(VENV)/dpsgd: $(VENV)/dev
	$(INSTALL) dpsgd
	@touch $@

test-dpsgd: $(VENV)/dpsgd ## private training of networks through Opacus
	$(BIN)/pytest -m dpsgd

$(VENV)/files: $(VENV)/dev
	$(INSTALL) files
	@touch $@

test-files: $(VENV)/files ## records in tables of pandas and pyarrow
	$(BIN)/pytest -n $(JOBS) -m files

$(VENV)/flower: $(VENV)/dev
	$(INSTALL) dev flower
	@touch $@

test-flower: $(VENV)/flower ## Flower: simulated nodes, and real processes on loopback that are killed (9 minutes)
	$(BIN)/pytest -m flower

test-mhe: $(VENV)/flower ## multiparty CKKS: finds a Python that OpenFHE has a wheel for (CPython 3.10 or 3.12)
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/hushtune mhe setup
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/pytest -n $(JOBS) -m mhe

$(VENV)/quorum: $(VENV)/dev
	$(INSTALL) quorum
	@touch $@

test-quorum: $(VENV)/quorum ## MPyC as an oracle for what nodes compute, and what they would show with it
	$(FAST) $(BIN)/pytest -n $(JOBS) -m quorum

bench: $(VENV)/torch $(VENV)/flower ## docs/results/performance.md: every speed bar, measured (FULL=--full: 20 minutes more)
	-HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/hushtune mhe setup
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/python -m experiments bars $(FULL) --out docs/results/performance.md

$(VENV)/release: $(VENV)/test
	$(INSTALL) release
	@touch $@

dist: $(VENV)/release ## wheel, sdist and SBOM in dist/; the same sources give the same bytes
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python tools/sbom.py dist

test-release: $(VENV)/release ## wheel and sdist; the wheel and each extra in empty environments outside this folder
	$(BIN)/pytest -m release

OLDEST := .venv-oldest
# what calls the packages most: numbers and accounting, samplers, ciphers, workers, commands
QUICKLY := tests/cli tests/core/test_space.py tests/core/test_locks.py tests/core/test_observer.py tests/client/search \
	tests/client/test_rows.py tests/data tests/privacy tests/seals/masked tests/methods/vote tests/methods/surface tests/run
$(OLDEST)/installed: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) tools/oldest.py >$(OLDEST)/oldest.txt
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/oldest.txt --editable '.[test]'
	@touch $@

test-oldest: $(OLDEST)/installed ## with the oldest versions that are accepted, CPython 3.11; a part, or with ALL=1 everything (3 minutes)
	$(FAST) $(OLDEST)/bin/pytest -n $(JOBS) $(if $(ALL),,$(QUICKLY))

locks: | $(BIN)/python ## locks/, for pyproject.toml as it is; what is locked and still fits stays (UPGRADE=--upgrade: the newest)
	test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check 'uv>=0.8,<1'
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python tools/locks.py $(UPGRADE)

licences: $(VENV)/dpsgd $(VENV)/files $(VENV)/flower ## docs/licences.md, from what is installed
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/hushtune mhe setup
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/python tools/licences.py docs/licences.md

docs-check: $(VENV)/flower $(VENV)/torch $(VENV)/dpsgd ## every command that README and docs show, once; long ones on less (10 minutes)
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/python tools/docs_check.py

matrix: $(VENV)/test ## README's table and docs/matrix.md, by running the conformance suite over every method x seal x noise
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/hushtune mhe setup
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/python tools/matrix.py

screenshots: $(VENV)/browser ## pictures of the demo's report for README and docs
	$(BIN)/python tests/review/pages/screenshots.py runs/demo docs/pictures

$(VENV)/docs: $(VENV)/dev
	$(INSTALL) docs
	@touch $@

docs: $(VENV)/docs ## the site in site/: a broken link fails; the examples run in `make test`
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

lint: $(VENV)/dev ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/dev ## rewrite files in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# one call of pip is faster than one for each extra
EXTRAS := dev torch dpsgd files flower quorum browser docs release
installs: $(VENV)/test ## all that the other targets would install, at once
	$(INSTALL) $(EXTRAS)
	@touch $(addprefix $(VENV)/,$(EXTRAS))
	HUSHTUNE_MHE=$(CURDIR)/$(VENV)/openfhe $(BIN)/hushtune mhe setup

test-all: test test-long lint docs test-torch test-dpsgd test-files test-flower test-mhe test-quorum docs-check test-browser test-release test-oldest ## everything

clean: ## remove what the targets above made
	rm -rf $(VENV) $(OLDEST) runs site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
