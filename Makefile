# Two commands for a fresh clone: `make audit` and `make test`. Both need only git, make and Python >= 3.11 with venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= 0

.PHONY: audit test slow results libraries lint types docs check dist clean

audit: $(VENV)/installed
	$(BIN)/epsaudit audit --seed $(SEED) --out results/latest
	$(BIN)/python -m epsaudit.experiments.front results/latest

test: $(VENV)/installed
	$(BIN)/python -m compileall -q audit mechanisms experiments  # once, and not in every process that a test starts
	@# a worker has whole modules, and sets up what their tests share once; what pytest rewrites of libraries is kept for all
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

# What takes long and rarely breaks, whole, and what draws examples with many of them: once a week and before a release.
slow: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "(slow or hypothesis) and not libraries" --hypothesis-profile=weekly

# Everything under results/ and the main table, in 29 minutes on two cores; `make libraries` installs released
# libraries and audits and hunts them.
results: $(VENV)/installed
	$(BIN)/epsaudit experiment run all --seed $(SEED)
	$(BIN)/epsaudit audit --seed $(SEED) --out results
	$(BIN)/python -m epsaudit.experiments.front results

libraries: $(VENV)/installed
	$(BIN)/epsaudit experiment run libraries --seed $(SEED)

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	$(BIN)/mypy

docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

check: test lint types docs

# What an index takes: built, checked, and installed into an empty environment, where README and the first tutorial are followed.
dist: $(VENV)/installed
	rm -rf build/dist build/lib
	$(BIN)/python -m build --outdir build/dist
	$(BIN)/python -m twine check --strict build/dist/*
	EPSAUDIT_DIST="$$(echo build/dist/*)" $(BIN)/python -m pytest -m slow tests/test_walk.py -k "letter and (README or first-audit)"

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "epsaudit needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV)
