# Everything runs in .venv; the first target that needs it creates it.
PYTHON ?= python3
VENV   ?= .venv
TORCH  ?= torch==2.13.0
# Set to a CPU wheel index to avoid the CUDA build where pip would choose it.
TORCH_INDEX_URL ?=
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-slow test-docker lint types check bench proto clean

setup: $(STAMP)
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL)) $(TORCH)
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/regionfed up recipes/demo.toml

test: setup
	$(BIN)/python -m pytest

test-slow: setup
	$(BIN)/python -m pytest -m slow --timeout 900

test-docker: setup
	$(BIN)/python -m pytest -m docker --timeout 7200 tests/docker

lint: setup
	$(BIN)/ruff check .
types: setup
	$(BIN)/mypy -p regionfed -p regionfed_server -p regionfed_coordinator -p regionfed_client
check: lint types test
# Regenerates the bridge's protobuf code; a test compares it.
proto: setup
	$(BIN)/python -m regionfed.bridge.generate

clean:
	rm -rf runs .mypy_cache .ruff_cache .pytest_cache
