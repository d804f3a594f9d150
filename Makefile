# `make demo` trains a Connect Four league, `make test` runs everything that is checked. Both need Python, pip and make only.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DISTRIBUTIONS = $(wildcard setup.cfg plugins/*/setup.cfg contrib_envs/*/setup.cfg contrib_algos/*/setup.cfg examples/*/setup.cfg)

.PHONY: demo test install lint types format clean

demo: install
	@if [ -e runs/demo ]; then mv runs/demo runs/demo-before-$$(date +%Y%m%d-%H%M%S); fi
	$(BIN)/ludus train examples/connect4.toml --run runs/demo

test: install lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder

install: $(VENV)/installed

$(VENV)/installed: constraints.txt requirements-dev.txt $(DISTRIBUTIONS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -r requirements-dev.txt
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	MYPYPATH=examples $(BIN)/mypy core/ludus plugins/*/src contrib_*/*/src examples/*/src examples/*.py benchmarks/*.py docs/*.py
	ls examples/*/run.py | MYPYPATH=examples xargs -n 1 $(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
