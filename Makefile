# Two commands do everything: `make demo` and `make test`. Set-up is pinned in requirements/ and lives in .venv.
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin

.PHONY: setup wheel shell databases browser demo test retest shared slow lint bench bench-quick docs screenshots clean

setup: $(VENV)/ready

$(VENV)/ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Reticent needs Python 3.11 or newer; set PYTHON=..."; exit 2; }
	@echo "Setting up $(VENV) with pinned versions: about two minutes and 1.5 GB."
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing packages ..."
	@$(RUN)/python -m pip install --quiet --quiet --disable-pip-version-check -r requirements/dev.txt
	@$(RUN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What users install: `pip install dist/reticent-*.whl`, or with an extra, `"dist/reticent-...whl[serve]"`.
wheel: setup
	@rm -rf dist build
	@$(RUN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

# A shell in which `reticent` and `python` are those of .venv.
shell: setup
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(RUN):$$PATH" $${SHELL:-sh}

# What the database tests need, where it is absent. What cannot be had is named here and by the tests that skip.
databases: setup
	@wanted=""; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || wanted="postgresql"; \
	command -v java >/dev/null || wanted="$$wanted default-jre-headless"; \
	[ -z "$$wanted" ] || { [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && apt-get -qq update >/dev/null \
		&& apt-get -qq install -y --no-install-recommends $$wanted >/dev/null; } \
		|| echo "database tests will skip: install $$wanted (needs root and apt-get)"
	@$(RUN)/python -c 'import pyspark' 2>/dev/null || $(RUN)/python -m pip install --quiet --quiet \
		--disable-pip-version-check --no-deps --no-build-isolation -r requirements/spark.txt \
		|| echo "Spark tests will skip: pyspark could not be installed"

# The page's tests drive a real browser.
browser:
	@bash scripts/browser.sh

demo: setup
	$(RUN)/reticent demo

# Under a minute on two cores: what most changes break first. `make test` is all but the slow tests and those on shared data.
QUICK := $(addprefix tests/unit/,domain queries knowledge report progress test_names.py test_private_names.py test_import_direction.py)
quick: setup
	$(RUN)/python -m pytest -n 2 -m "not slow and not shared" $(QUICK)

test: setup
	$(RUN)/python -m pytest -n 2 -m "not slow and not shared"

# The few tests that the last run failed, once more and alone: noise is drawn from the operating system, and some tests
# bound waiting times. What fails here too is a defect; more than five failures are never repeated.
retest: setup
	@$(RUN)/python -c 'import json, sys; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); \
		print("unstable, run again:", *failed, sep="\n  "); sys.exit(not 0 < len(failed) <= 5)'
	$(RUN)/python -m pytest --last-failed --last-failed-no-failures none -m "not slow and not shared"

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

docs: setup
	$(RUN)/python -m scripts.site

# The guide's pictures of the page, taken anew; a test says when the page has changed since.
screenshots: setup browser
	$(RUN)/python -m scripts.screenshots

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
