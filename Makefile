PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install run test lint bench stalls lock clean

help: ## list what make can do
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## make .venv with duenotice and everything it needs

# Debian keeps venv in a package of its own, hence the second try.
$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv || { tools/debian-programs python3-venv && $(PYTHON) -m venv --clear .venv; }
	$(BIN)/pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

run: install ## start a demo: a fleet in which something is going on
	$(BIN)/duenotice demo --data-dir .run/demo

lint: install ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint ## lint, then every test
	tools/debian-programs chromium curl dbus etcd-server golang-go haproxy iproute2 jq libmono-system-net-http4.0-cil \
		libmono-system-runtime-serialization4.0-cil mono-mcs mono-runtime nodejs openssl patroni postgresql-15 python3-etcd \
		python3-psycopg2 resource-agents slirp4netns systemd util-linux
	tools/real-programs
	$(BIN)/pytest -m "not serial and not browser" -n 2 --dist worksteal
	$(BIN)/pytest -m "not serial and browser" -n 2 --dist loadfile
	$(BIN)/pytest -m serial
	$(BIN)/pytest tests/unit/domain --cov=duenotice.domain --cov-branch --cov-fail-under=100

bench: install ## measure, side by side with nginx
	tools/debian-programs nginx-light wrk
	$(BIN)/python -m benchmarks

stalls: install ## a fleet of a million: what may happen to it, and the slowest poll of another VM meanwhile
	$(BIN)/python -m tests.promises.stalls --vms 1000000

lock: ## renew requirements.lock from pyproject.toml (LOCK=--upgrade for the newest versions)
	$(PYTHON) -m venv .run/uv
	.run/uv/bin/pip install -qq --disable-pip-version-check uv
	.run/uv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --all-extras $(LOCK) \
		pyproject.toml -o requirements.lock

clean: ## remove everything that make made
	rm -rf .venv .run .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
