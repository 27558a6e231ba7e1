# Two commands for a fresh clone: `make audit` and `make test`. Both need only git, make and Python >= 3.11 with venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= 0

.PHONY: audit test results status lint types docs check benchmark clean

audit: $(VENV)/installed
	$(BIN)/epsaudit audit --seed $(SEED) --out results

test: $(VENV)/installed
	$(BIN)/python -m pytest -n auto

# Everything under results/, about three hours on two cores: sequential-validity and claims-that-do-not-survive half an
# hour and twenty minutes, power, library-bugs (which installs released libraries), interactive, shuffling and
# conversions ten to twenty each, the others less than ten. `make status` says what is stale, and how long each took.
results: $(VENV)/installed
	$(BIN)/epsaudit experiment run all --seed $(SEED)
	$(BIN)/python -m epsaudit.experiments.benchmark_public --seed $(SEED) --runs 43000000 --out results/public-benchmark-43M \
	  --only Laplace 'sparse vector 2' 'sparse vector 3 and 4' 'sparse vector 4' 'report noisy max 1' 'report noisy max 2' 'report noisy max 3'
	$(BIN)/epsaudit audit --seed $(SEED) --out results

status: $(VENV)/installed
	$(BIN)/epsaudit experiment status

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	@mkdir -p build/types && ln -sfn ../../audit build/types/epsaudit
	$(BIN)/mypy

docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

check: test lint types docs

benchmark: $(VENV)/installed
	$(BIN)/python -m epsaudit.experiments.benchmark

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "epsaudit needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV)
