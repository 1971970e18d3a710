# Two commands do everything: `make demo` and `make test`. Set-up is pinned in requirements/ and lives in .venv.
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin

.PHONY: setup demo test shared slow lint bench bench-quick clean

setup: $(VENV)/ready

$(VENV)/ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Reticent needs Python 3.11 or newer; set PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --quiet --disable-pip-version-check -r requirements/dev.txt
	$(RUN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(RUN)/reticent demo

test: setup
	$(RUN)/python -m pytest -n 2 -m "not slow and not shared"

shared: setup
	$(RUN)/python -m pytest -n 2 -m "shared and not slow"

slow: setup
	$(RUN)/python -m pytest -m slow

lint: setup
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/pyright

bench: setup
	$(RUN)/python -m benchmarks

bench-quick: setup
	$(RUN)/python -m benchmarks --quick

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
