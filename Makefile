# The two commands a newcomer needs: `make demo` and `make test`. Each creates what it needs.

PYTHON ?= python3.11
VENV ?= .venv
TASK ?= silu
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Without compiled files every process of ours, and every test process, would compile all it loads.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all soak check format bench lock clean

$(READY): pyproject.toml requirements.lock
	@echo "creating $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[dev]'
	@$(BIN)/python -m compileall -q accelopt plugins graphs nkibench
	@$(BIN)/python -m accelopt_simulator.warm_up
	@touch $(READY)

# Optimize a real NKIBench kernel on the simulator with the offline model: no key, no chip.
demo: $(READY)
	@$(BIN)/accelopt optimize $(TASK) --memory none

test: $(READY)
	@$(BIN)/python -m pytest -n 2 -m "not slow and not packaging and not browser and not soak"

# What CI runs beyond `make test`: slow tests, and tests that build and install the wheel.
test-all: $(READY)
	@$(BIN)/python -m pytest -m "(slow or packaging or browser) and not soak" --ignore tests/trainium
	@$(BIN)/python -m pytest -n 2 -m "slow and not soak" tests/trainium

soak: $(READY)
	@$(BIN)/python -m pytest -m soak --timeout 3600

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY)
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python benchmarks/trace_codec.py
	@$(BIN)/python benchmarks/simulator_speed.py
	@$(BIN)/python benchmarks/latency_speed.py
	@$(BIN)/python benchmarks/isolation.py
	@$(BIN)/python benchmarks/fidelity.py

# Write the lock file anew from what the virtual environment holds.
lock: $(READY)
	@$(BIN)/python -m pip freeze --exclude-editable > requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist build
