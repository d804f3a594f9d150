# `make demo` trains a Connect Four league, `make test` runs all checks, `make chaos` disturbs runs by faults and hostile messages for hours. All need
# Python, pip and make only.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
WHEELS ?= dist
FAULTS ?= 50
SEED ?= 0
INPUTS ?= 100000
FOLDERS = . $(patsubst %/setup.cfg,%,$(wildcard plugins/*/setup.cfg contrib_envs/*/setup.cfg contrib_algos/*/setup.cfg))
DISTRIBUTIONS = $(wildcard setup.cfg plugins/*/setup.cfg contrib_envs/*/setup.cfg contrib_algos/*/setup.cfg examples/*/setup.cfg)

.PHONY: demo test chaos install lint types docs wheels format clean

demo: install
	@if [ -e runs/demo ]; then mv runs/demo runs/demo-before-$$(date +%Y%m%d-%H%M%S); fi
	$(BIN)/ludus train examples/connect4.toml --run runs/demo

test: install lint types docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder

# A number of faults (FAULTS) per kind of process, then of inputs (INPUTS) per kind of message and fuzzer, both drawn by a
# seed (SEED); the tables are those of benchmarks/results/chaos-0.1.0.md.
chaos: install
	cd benchmarks && $(abspath $(BIN))/python -m chaos $(FAULTS) --seed $(SEED)
	cd benchmarks && $(abspath $(BIN))/python -m chaos 5 --seed $(SEED) --rules
	cd benchmarks && $(abspath $(BIN))/python -m fuzz $(INPUTS) --seed $(SEED)

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
	MYPYPATH=examples:benchmarks $(BIN)/mypy core/ludus plugins/*/src contrib_*/*/src examples/*/src examples/*.py benchmarks/*.py benchmarks/chaos benchmarks/fuzz docs/*.py
	ls examples/*/run.py | MYPYPATH=examples xargs -n 1 $(BIN)/mypy

docs: install
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 -c docs . build/docs

# Every wheel is built in a folder of its own: files left from an earlier build would become part of it.
wheels: install
	@for folder in $(FOLDERS); do \
	    base=$$(mktemp -d); \
	    printf '[build]\nbuild_base = %s\n' $$base > $$base/build.cfg; \
	    (cd $$folder && DIST_EXTRA_CONFIG=$$base/build.cfg $(abspath $(BIN))/python -c \
	        "from setuptools.build_meta import build_wheel; build_wheel('$(abspath $(WHEELS))')") > $$base/log 2>&1 \
	        || { cat $$base/log; exit 1; }; \
	    rm -r $$base; \
	done

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
