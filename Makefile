# The commands for developers. `make help` lists them.
PYTHON ?= python3
PY := .venv/bin/python
NOX := $(PY) -m nox
SECONDS ?= 60
WORKERS ?= 3
QUERIES ?= 3000
MINUTES ?= 60
SEEDS ?= 0-20000
# without written .pyc files, each of the thousand processes of `make test` would compile all modules
export PYTHONDONTWRITEBYTECODE :=
# the commands use .venv; IPython would warn of another environment that is active
unexport VIRTUAL_ENV
.DEFAULT_GOAL := help
.PHONY: help setup demo lab test check nightly lint types collected coverage bench explore fuzz sweep simulate corpora soak versions typed package release docs pictures clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: ## install, run the quickstart notebook on the embedded service, print the result
	@$(PYTHON) tools/setup.py lab --java
	@$(PY) tools/demo.py

lab: ## JupyterLab in notebooks/, with the embedded service running
	@$(PYTHON) tools/setup.py lab --java
	@$(PY) tools/lab.py

test: setup ## what CI runs: format, lint, types, all tests except the nightly ones (includes Spark and a browser)
	@$(MAKE) --no-print-directory -j 3 lint types collected
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 -m "not nightly"

check: setup ## while you work: format, lint, types, tests without Spark, browser, kernel and stock pyodps
	@$(MAKE) --no-print-directory lint types
	$(PY) -m pytest -m "not spark and not browser and not kernel and not compat and not nightly" --durations=5

nightly: setup ## before a release: all tests, types, versions; writes docs/results/nightly.md (STEPS="tests": only this step)
	@$(PYTHON) tools/setup.py docs # for the test that builds the site
	@$(MAKE) --no-print-directory lint types
	$(PY) tools/nightly.py $(STEPS)

setup: ## create .venv with all development tools, find or install Java and Chromium
	@$(PYTHON) tools/setup.py dev --java --chromium

lint:
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m codespell_lib *.md docs notebooks odps_nb
	@! git grep -nE '^(<{7}|>{7})( |$$)' # conflict markers of an unfinished merge

types:
	@$(PY) -m mypy

collected: # compiles the tests once, in parallel with the type check, instead of in each worker; the test run reports failures
	@$(PY) -m pytest --collect-only -q -m "not nightly" > /dev/null 2>&1 || true

coverage: setup ## branch coverage of odps_nb/wire by its own tests; fails below 100 %
	$(PY) -m pytest tests/wire -n 2 -q --cov=odps_nb/wire --cov-branch --cov-fail-under=100 --cov-report=term:skip-covered

bench: setup ## speed and memory compared with pyodps in the same run (ARGS="tables wire --json FILE", "--compare OLD NEW")
	$(PY) -m benchmarks $(ARGS)

explore: setup ## new random examples for every property, and random queries for the Spark SQL push-down (10 times QUERIES)
	@ODPS_NB_EXPLORE=$(QUERIES) $(PY) -m pytest -m "hypothesis or explore" --timeout 7200 -rN --tb=short

fuzz: setup ## fuzzing of every parser of untrusted bytes (SECONDS=60 in total)
	@$(PY) -m pip install --quiet --disable-pip-version-check -e .[fuzz]
	$(PY) fuzz/run.py --seconds $(SECONDS)

sweep: setup ## each job with each single fault at each exchange, five jobs with pairs of faults; writes docs/results/single-faults.md
	@rm -f build/sweep.jsonl; mkdir -p build
	ODPS_NB_SWEEP=$(CURDIR)/build/sweep.jsonl $(PY) -m pytest tests/sweep -n 8 --dist load -rN --tb=short --timeout 1200
	$(PY) -m tests.sweep.peer build/sweep.jsonl
	@PYTHONPATH=tools $(PY) -m tests.sweep.page build/sweep.jsonl

simulate: setup ## histories of reads and writes over a simulated network (SEEDS=0-20000), or the events of one (SEEDS=17)
	@$(PY) -m tests.simulation $(SEEDS)

soak: setup ## mixed work in one kernel for MINUTES=60, to detect leaks; writes docs/results/soak.md (ARGS="--json FILE")
	$(PY) -m benchmarks.soak --minutes $(MINUTES) $(ARGS)

corpora: setup ## previews and converts files from other projects (fetched by package name), and compares; writes docs/results/corpora.md
	@rm -f build/corpora.jsonl; mkdir -p build
	ODPS_NB_CORPORA_NOTES=$(CURDIR)/build/corpora.jsonl $(PY) -m pytest tests/corpora -n 2 --dist loadfile -rs --tb=short
	@PYTHONPATH=tools $(PY) -m tests.corpora.page build/corpora.jsonl

versions: setup ## tests with other versions of pandas, Spark and other libraries (NAMES="pandas-2 oldest": only these)
	$(NOX) $(if $(NAMES),-s $(foreach name,$(NAMES),"$(if $(filter oldest python-%,$(name)),$(name),versions($(name)))"),-t versions)

typed: setup ## checks with pyright that every public name has a type (separate environment; needs the network once)
	@$(PY) tools/public_types.py

package: setup ## sdist and wheel in dist/, built twice and compared; each is installed and tested separately
	$(NOX) -s package installed

release: setup ## the packages to upload, checked, installed and tested, with an SBOM; first reports what is not ready
	$(NOX) -x -s ready package installed sbom

docs: ## the site in build/site; runs every notebook; warnings are errors (ARGS=--no-notebooks: faster)
	@$(PYTHON) tools/setup.py docs --java
	@$(PY) tools/build_site.py $(ARGS)

pictures: setup ## regenerate the pictures in docs/ from real runs
	$(PY) tools/pictures.py
	$(PY) tools/animation.py

clean: ## remove build results (not .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
