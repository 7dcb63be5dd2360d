# make evaluate   score the bundled sample against the embedded offline judge (ARGS='--limit 5' adds options)
# make test       lint, formatting, types, import rules and tests (ARGS='-k tokenizer' adds options of pytest)
# make soak       ten minutes of mixed traffic with faults, kills and full disks (ARGS='--minutes 2' shortens it)
# make test-integrations    tests with the trainers' own packages, which it installs into .trainers (several GB; CPU only)
# make format     format, and fix what ruff can fix
# make clean      remove the virtual environment and all caches; runs/ stays
#
# PYTHON=python3.12 picks the interpreter of a new virtual environment ("make clean" first if there is one).

PYTHON ?= python3
ARGS ?=
TRAINER_ENVIRONMENTS ?= .trainers
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: evaluate test soak test-integrations format clean
.DELETE_ON_ERROR:

evaluate: $(STAMP)
	@$(BIN)/python eval_environments/arena_hard_environment.py evaluate --offline $(ARGS)

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

soak: $(STAMP)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

# A trainer that cannot be installed here (another Python, no network) has its tests skipped, with the reason.
test-integrations: $(STAMP)
	TRAINER_ENVIRONMENTS=$(TRAINER_ENVIRONMENTS) tests/integrations/install.sh
	TRAINER_ENVIRONMENTS=$(TRAINER_ENVIRONMENTS) $(BIN)/python -m pytest -rs tests/integrations $(ARGS)

format: $(STAMP)
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

# Some distributions ship Python without ensurepip: the outer pip then puts pip into the new environment.
# constraints.txt fits Python 3.10 to 3.13; a newer Python gets the newest versions instead.
$(STAMP): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "JudgeGym needs Python 3.10 or newer, and '$(PYTHON)' was not found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "JudgeGym needs Python 3.10 or newer, and '$(PYTHON)' is" `"$(PYTHON)" --version 2>&1`". Try: make PYTHON=python3.11" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		echo "Creating .venv and installing JudgeGym into it (once; a few minutes)"; \
		"$(PYTHON)" -m venv --clear .venv >/dev/null 2>&1 || { \
			"$(PYTHON)" -m venv --clear --without-pip .venv && \
			"$(PYTHON)" -m pip --python $(BIN)/python install -qq pip; }; }
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 14))'; then \
		echo "constraints.txt fits Python 3.10 to 3.13: installing the newest versions instead"; \
		$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'; \
	else \
		$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'; \
	fi
	@touch $@

clean:
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
