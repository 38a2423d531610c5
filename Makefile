# Everything below sets itself up: a virtual environment in .venv, filled from pyproject.toml.
# TORCH=2.13.0 adds that version of torch, for the tests that otherwise skip; SLOW=1 runs all
# tests, as before a release, and CI=true all but the slowest.
PYTHON ?= python3
BIN := .venv/bin
# Bytecode is left to the first import, since half of what is installed is never imported; but then it is written, or
# each of the hundreds of processes that the tests start would compile a thousand modules again.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: tour test tests lint style types bench tiny docs site dist smoke audit sbom clean

tour: .venv/core
	$(BIN)/nearsay tour

# Types are checked while torch is installed and the tests begin.
test: style
	$(MAKE) --no-print-directory --jobs 2 types tests

# Two workers with one thread of BLAS each: on two cores, a third takes as much time as it saves. conftest.py says which
# files come first.
tests: .venv/dev $(if $(TORCH),.venv/torch)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(if $(SLOW),--slow)

lint: style types

style: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell src docs examples *.md

types: .venv/dev
	$(BIN)/mypy

bench: .venv/dev
	$(BIN)/python -m benchmarks

# Every benchmark, on sizes that only show that it runs.
tiny: .venv/dev
	$(BIN)/python -m benchmarks --tiny

docs: .venv/dev
	PYTHONPATH=. $(BIN)/python docs/make_pictures.py

# Sphinx into build/site, from nothing: pages of names that are gone would be warnings, and warnings are errors.
site: .venv/site
	rm -rf docs/generated build/site
	$(BIN)/python -m sphinx -b html -q -W --keep-going -d build/doctrees docs build/site
	$(BIN)/python docs/check_links.py build/site

# The wheel and the source, twice: the same bytes both times, and small enough to send to anyone.
dist: build/tools
	rm -rf dist build/again
	for folder in dist build/again; do build/tools/bin/python -m build --outdir $$folder > build/$@.log || exit 1; done
	for file in dist/*; do cmp $$file build/again/$${file#dist/} || exit 1; done
	test -z "$$(find dist -name '*.whl' -size +4000k)"
	ls -l dist

# The wheel in an empty environment, tried in an empty folder. PYTHON=python3.12 names another Python, and
# PINS="--constraint oldest.txt" takes the oldest packages.
smoke: dist
	$(PYTHON) -m venv --clear build/smoke
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check $(PINS) "$$(echo dist/*.whl)[images,web]"
	rm -rf build/empty && mkdir build/empty
	cd build/empty && ../smoke/bin/nearsay --version && ../smoke/bin/nearsay doctor && ../smoke/bin/nearsay tour

# Known vulnerabilities of dependencies; all that the wheel brings, as a list for machines (CycloneDX).
audit: .venv/dev build/tools
	PIPAPI_PYTHON_LOCATION=$(BIN)/python build/tools/bin/pip-audit --skip-editable --progress-spinner off

sbom: build/tools
	$(PYTHON) -m venv --clear build/listed
	build/listed/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/listed/bin/python -m pip uninstall --quiet --yes pip
	build/tools/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file dist/nearsay.cdx.json build/listed/bin/python

build/tools:
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check build cyclonedx-bom pip-audit

.venv/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

.venv/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable ".[dev]"
	touch $@ .venv/core

.venv/torch: .venv/dev
	$(INSTALL) torch==$(TORCH) --editable ".[torch]"
	touch $@ .venv/core

.venv/site: pyproject.toml | $(if $(TORCH),.venv/torch)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable ".[site]"
	touch $@ .venv/core

# All of these by one run of pip, which takes less time than three.
.venv/all: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) torch==$(TORCH) --editable ".[dev,torch,site]"
	touch .venv/core .venv/dev .venv/torch .venv/site $@

clean:
	rm -rf .venv build dist docs/generated
