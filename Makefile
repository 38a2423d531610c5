# Everything below sets itself up: a virtual environment in .venv, filled from pyproject.toml.
# TORCH=2.13.0 adds that version of torch, for the tests that otherwise skip; SLOW=1 the tests
# on real data sets that take longest, and a tiny run of every benchmark.
PYTHON ?= python3
BIN := .venv/bin
comma := ,

.PHONY: tour test lint bench docs site clean

tour: .venv/core
	$(BIN)/nearsay tour

# Two workers with one thread of BLAS each: on two cores, more would wait for one another.
test: lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(if $(SLOW),--slow)
	$(if $(SLOW),$(BIN)/python -m benchmarks --tiny)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev
	$(BIN)/python -m benchmarks

docs: .venv/dev
	PYTHONPATH=. $(BIN)/python docs/make_pictures.py

# Sphinx into build/site, from nothing: pages of names that are gone would be warnings, and warnings are errors.
site: .venv/site
	rm -rf docs/generated build/site
	$(BIN)/python -m sphinx -b html -q -W --keep-going -d build/doctrees docs build/site
	$(BIN)/python docs/check_links.py build/site

.venv/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(TORCH),torch==$(TORCH)) --editable ".[dev$(if $(TORCH),$(comma)torch)]"
	touch $@ .venv/core

.venv/site: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[site]"
	touch $@ .venv/core

clean:
	rm -rf .venv build dist docs/generated
