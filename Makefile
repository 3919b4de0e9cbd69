# make demo    train on the sample tiles, index them, score them and open the page
# make test    run the whole test suite
# make lint    check style, types and the direction of imports
# make clean   remove what these made, .venv included
#
# Each makes .venv on first use, and again when pyproject.toml changes. PYTHON names another interpreter:
# make demo PYTHON=python3.12

PYTHON := $(or $(PYTHON),$(shell command -v python3 || command -v python))
VENV := .venv
BIN := $(VENV)/bin

# One line that says why $(PYTHON) cannot make an environment, or nothing.
python_problem = $(shell \
	version=$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
	if [ -z "$(PYTHON)" ]; then \
		echo 'No Python found: install Python 3.11 or newer (Debian, Ubuntu: sudo apt install python3 python3-venv)'; \
	elif [ -z "$$version" ]; then \
		echo '$(PYTHON) does not run: name a Python 3.11 or newer, as in make $(MAKECMDGOALS) PYTHON=python3.12'; \
	elif ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "$(PYTHON) is Python $$version, and 3.11 or newer is needed: install one and name it," \
			"as in make $(MAKECMDGOALS) PYTHON=python3.12"; \
	elif ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$(PYTHON) comes without venv: install it (Debian, Ubuntu: sudo apt install python$$version-venv)"; \
	fi)

.PHONY: help demo test lint clean

help:
	@sed -n 's/^# \(make .*  .*\)/\1/p' Makefile

demo: $(VENV)/installed
	$(BIN)/mocosearch demo || [ $$? -eq 130 ]  # 130: ended with Ctrl-C, as it should

# Tests side by side, one thread each; threads that wait do not spin, for other processes want the cores.
test: $(VENV)/installed-test
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A larger set of packages holds the smaller ones, so its stamp is theirs too.
$(VENV)/installed-test: extra := [test]
$(VENV)/installed-test: contains := $(VENV)/installed
$(VENV)/installed-dev: extra := [dev]
$(VENV)/installed-dev: contains := $(VENV)/installed $(VENV)/installed-test

$(VENV)/installed $(VENV)/installed-test $(VENV)/installed-dev: pyproject.toml
	$(eval problem := $(python_problem))$(if $(problem),$(error $(problem)))
	@echo "Installing into $(VENV); the first time takes some minutes and about 7 GB of disk." >&2
	@out=$$("$(PYTHON)" -m venv $(VENV) 2>&1) || { \
		echo "$(PYTHON) cannot make $(VENV): $$(echo "$$out" | tail -n 1)" \
			"(Debian, Ubuntu: sudo apt install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --disable-pip-version-check -e '.$(extra)'
	@touch $@ $(contains)
