# Everything a developer types. `make help` lists it.
PYTHON ?= python3
PY := .venv/bin/python
NOX := $(PY) -m nox
empty :=
space := $(empty) $(empty)
SECONDS ?= 60
WORKERS ?= 3
QUERIES ?= 3000
MINUTES ?= 60
SEEDS ?= 0-20000
# a tree whose .pyc may not be written is compiled anew by each of the gate's thousand processes
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
.PHONY: help setup demo lab test check nightly lint types collected coverage bench explore fuzz sweep simulate corpora soak versions typed package release docs pictures clean

help: ## list what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: ## the main job on the embedded service: install, run the quickstart notebook, show what happened
	@$(PYTHON) tools/setup.py lab --java
	@$(PY) tools/demo.py

lab: ## JupyterLab in notebooks/ with the embedded service up
	@$(PYTHON) tools/setup.py lab --java
	@$(PY) tools/lab.py

test: setup ## what CI runs: format, lint, types, all tests but the nightly ones (Spark and a browser included)
	@$(MAKE) --no-print-directory -j 3 lint types collected
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 -m "not nightly"

check: setup ## while you work: format, lint, types, tests without Spark, browser, kernel and the stock pyodps
	@$(MAKE) --no-print-directory lint types
	$(PY) -m pytest -m "not spark and not browser and not kernel and not compat and not nightly" --durations=5

nightly: setup ## before a release: all tests, types, versions; writes docs/results/nightly.md (STEPS="tests": only those)
	@$(PYTHON) tools/setup.py docs # a test builds the site
	@$(MAKE) --no-print-directory lint types
	$(PY) tools/nightly.py $(STEPS)

setup: ## .venv with everything development needs, Java, Chromium
	@$(PYTHON) tools/setup.py dev --java --chromium

lint:
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m codespell_lib *.md docs notebooks odps_nb
	@! git grep -nE '^(<{7}|>{7})( |$$)' # of a merge that was left half done

types:
	@$(PY) -m mypy

collected: # compiles the tests once, beside the types, instead of in each worker; the run itself says what fails
	@$(PY) -m pytest --collect-only -q -m "not nightly" > /dev/null 2>&1 || true

coverage: setup ## branch coverage of odps_nb/wire by its own tests; less than all of it is a failure
	$(PY) -m pytest tests/wire -n 2 -q --cov=odps_nb/wire --cov-branch --cov-fail-under=100 --cov-report=term:skip-covered

bench: setup ## speed and memory beside pyodps in the same run (ARGS="tables wire --json FILE", "--compare OLD NEW")
	$(PY) -m benchmarks $(ARGS)

explore: setup ## new random examples for every property, and QUERIES=3000 for the push-down of Spark SQL
	@ODPS_NB_EXPLORE=$(QUERIES) $(PY) -m pytest -m "hypothesis or explore" --timeout 7200 -rN --tb=short

fuzz: setup ## fuzzing of all that reads bytes of others (SECONDS=60 in all)
	@$(PY) -m pip install --quiet --disable-pip-version-check -e .[fuzz]
	$(PY) fuzz/run.py --seconds $(SECONDS)

sweep: setup ## every job with every single fault at every exchange, three with two; writes docs/results/single-faults.md
	@rm -f build/sweep.jsonl; mkdir -p build
	ODPS_NB_SWEEP=$(CURDIR)/build/sweep.jsonl $(PY) -m pytest tests/sweep -n 8 --dist load -rN --tb=short --timeout 1200
	$(PY) -m tests.sweep.peer build/sweep.jsonl
	@$(PY) -m tests.sweep.page build/sweep.jsonl

simulate: setup ## histories of reads and writes in a simulated world (SEEDS=0-20000), or the story of one (SEEDS=17)
	@$(PY) -m tests.simulation $(SEEDS)

soak: setup ## mixed work in one kernel for MINUTES=60, and whether anything grows: docs/results/soak.md (ARGS="--json FILE")
	$(PY) -m benchmarks.soak --minutes $(MINUTES) $(ARGS)

corpora: setup ## files of other projects, fetched by package name: shown, converted, compared; writes docs/results/corpora.md
	@rm -f build/corpora.jsonl; mkdir -p build
	ODPS_NB_CORPORA_NOTES=$(CURDIR)/build/corpora.jsonl $(PY) -m pytest tests/corpora -n 2 --dist loadfile -rs --tb=short
	@$(PY) -m tests.corpora.page build/corpora.jsonl

versions: setup ## tests with other versions of pandas, Spark and the rest (NAMES="pandas-2 oldest": only those)
	$(NOX) $(if $(NAMES),-k "$(subst $(space), or ,$(strip $(NAMES)))",-t versions)

typed: setup ## every public name has a type that pyright knows (its own environment; needs the network once)
	@$(PY) tools/public_types.py

package: setup ## sdist and wheel in dist/, built twice and compared; each is installed alone and tried
	$(NOX) -s package installed

release: setup ## the packages to upload, checked, installed, tried, with an SBOM; says first what is not ready
	$(NOX) -s ready package installed sbom

docs: ## the site in build/site, with every notebook run; a warning fails (ARGS=--no-notebooks: faster)
	@$(PYTHON) tools/setup.py docs --java
	@$(PY) tools/build_site.py $(ARGS)

pictures: setup ## regenerate the pictures and tables in docs/ from real runs
	$(PY) tools/pictures.py
	$(PY) tools/animation.py

clean: ## remove what was built (not .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
