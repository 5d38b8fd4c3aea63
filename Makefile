PYTHON ?= $(shell tools/python)
BIN := .venv/bin
RUNS := .venv/.runs
DEVELOPS := .venv/.develops
HYPERVISOR := busybox-static gcc libvirt-clients libvirt-daemon libvirt-daemon-driver-qemu libvirt-dev pkgconf python3-dev qemu-system-x86

.DEFAULT_GOAL := help
# Every name below is a target, not a file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(RUNS) ## make .venv with duenotice and the packages that it needs

develop: $(DEVELOPS) ## the same, and the tools for lint, test and bench

# Debian has venv in another package, so there is a second try.
$(RUNS): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "$(PYTHON) is not Python 3.11 or newer, which duenotice needs. Name another: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv .venv || { tools/debian-programs python3-venv && $(PYTHON) -m venv --clear .venv; }
	@$(call pip,--require-hashes -r requirements.lock)
	@$(call pip,--no-deps --no-build-isolation -e .)
	@touch $@

# uv installs in seconds what pip installs in a minute. Where it cannot be had, or finds no packages, pip does it.
$(DEVELOPS): $(RUNS) requirements-dev.lock
	@echo "uv pip install --require-hashes -r requirements-dev.lock"; \
	{ $(BIN)/pip install -qq --no-compile --disable-pip-version-check --require-hashes -r tools/uv.lock && \
		$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements-dev.lock; } >.venv/uv.log 2>&1 || { \
		$(call pip,--require-hashes -r requirements-dev.lock); }
	@touch $@

# One line when a package cannot be installed; pip prints many, and the reason last.
define pip
echo "pip install $(1)"; $(BIN)/pip install -qq --no-compile --disable-pip-version-check $(1) >.venv/pip.log 2>&1 || { \
	echo "pip cannot get the packages. Is there a network, or a mirror in pip's settings? Details: .venv/pip.log" >&2; exit 1; }
endef

run: install ## start a demo with a busy fleet (ARGS='--clock 1x' passes flags)
	$(BIN)/duenotice demo --data-dir .run/demo $(ARGS)

lint: develop ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Compiled files are kept, whatever the environment says: else each of the thousand processes that the tests start
# compiles all that it imports.
test test-all: export PYTHONDONTWRITEBYTECODE =

test: develop ## lint, then the tests of every day (as root on Debian it installs Debian packages)
	@$(MAKE) --no-print-directory --jobs --output-sync=line lint domain-tests waiting-tests
	@$(MAKE) --no-print-directory serial-tests

# They wait much, so lint and the tests of the domain, which compute, run beside them. All are collected once before:
# in a fresh clone each of the processes would compile each file.
waiting-tests: programs collection
	@$(MAKE) --no-print-directory parallel-tests three-nodes-tests smoke-tests

# Everything, in hours, with data from a seed of its own: all go on when one fails, and make names at the end which did.
ALL := lint programs domain-tests parallel-tests three-nodes-tests test-host serial-tests mutants oracle soak-tests test-monitoring test-az \
	test-container test-wheel test-units docs test-kubernetes
test-all: export DUENOTICE_SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
test-all: develop ## every test, in hours; ONLY='test-az docs' runs a part (as root on Debian it installs Debian packages)
	@$(MAKE) --no-print-directory --keep-going $(or $(ONLY),$(ALL)) \
		THREE_NODES='$(wildcard tests/acceptance/test_[A-G]_*.py) $(addprefix tests/acceptance/,test_idempotency.py \
		test_maintenances.py test_operator_manners.py test_waiting.py)'

PYTEST = $(BIN)/pytest -q $(if $(DUENOTICE_SEED),--hypothesis-seed=$(DUENOTICE_SEED))

domain-tests: develop
	$(PYTEST) tests/unit/domain -n 2 --cov=duenotice.domain --cov-branch --cov-fail-under=100

# Ten processes, each takes the next file in the order of tests/conftest.py. They wait more than they compute, so they
# are more than a small machine has cores.
DAILY := not soak and not kubernetes and not host
parallel-tests: develop
	$(PYTEST) -n 10 --dist loadfile --no-loadscope-reorder -m "not serial and $(DAILY)" --ignore tests/unit/domain

collection: develop
	@$(PYTEST) --collect-only tests >.venv/collection.log || { tail .venv/collection.log; exit 1; }

# Real guests run one after the other: each takes much of a small machine's memory.
smoke-tests: develop
	$(PYTEST) -m smoke tests/host

# Tests that measure run one after the other, when nothing else runs. Only their files are searched.
serial-tests: develop
	$(PYTEST) -m "serial and $(DAILY)" $$(grep -rlE 'mark\.serial' tests --include='test_*.py')

mutants: develop
	$(BIN)/python -m tools.mutate --jobs 2

# 40 simulated worlds are the same each time; without that, no two commits could be compared.
oracle: develop
	$(BIN)/python -m tools.compare HEAD HEAD

# The same tests against a service of three nodes, each request to a random one.
THREE_NODES := $(addprefix tests/acceptance/,test_C_approval.py test_F_enabling.py test_idempotency.py test_waiting.py)
three-nodes-tests: develop
	$(PYTEST) -p tests.support.three_nodes $(THREE_NODES)

programs: develop ## the programs that tests run (as root on Debian it installs Debian packages)
	tools/debian-programs $(HYPERVISOR) chromium-headless-shell curl dbus etcd-server golang-go haproxy iproute2 jq \
		libmono-system-net-http4.0-cil libmono-system-runtime-serialization4.0-cil mono-mcs mono-runtime nftables nodejs \
		openssl patroni postgresql-15 python3-etcd python3-psycopg2 resource-agents slirp4netns strace systemd util-linux
	tools/real-programs
	tools/host-programs

bench: develop ## measure all, side by side with nginx; a run on a quiet machine goes into docs/benchmarks.md (as root on Debian it installs Debian packages)
	tools/debian-programs nginx-light postgresql-15 util-linux wrk
	$(BIN)/python -m benchmarks --write

bench-quick: develop ## the daily part of that in two minutes (as root on Debian it installs Debian packages)
	tools/debian-programs nginx-light util-linux wrk
	$(BIN)/python -m benchmarks --quick

soak: develop ## look for longer, with fresh seeds on all cores, until something is found (SOAK=10m; 90s, 2h)
	$(BIN)/python -m simulator.soak --for $(or $(SOAK),10m)

soak-tests: develop ## 300 rounds of kill -9, ten times as many random stories as the tests, failovers of PostgreSQL, the agent's recipes (as root on Debian it installs Debian packages)
	tools/debian-programs busybox-static corosync crmsh crun iproute2 keepalived munge netavark nginx-light pacemaker podman \
		slurm-client slurmctld slurmd strace
	$(BIN)/python -m tests.crash --rounds 300
	DUENOTICE_EXAMPLES=2000 $(PYTEST) tests/promises/test_machine.py tests/promises/test_maintenances.py \
		tests/promises/test_fleet_changes.py tests/promises/test_previews.py tests/promises/test_cluster.py \
		tests/promises/test_cluster_engines.py tests/unit/agent/test_promises.py -n 2
	$(PYTEST) -m soak

soak-cluster: develop ## 200 rounds of what can happen to three nodes on PostgreSQL, SEED=N for the same ones again (as root on Debian it installs Debian packages)
	tools/debian-programs iproute2 nftables postgresql-15 util-linux
	$(BIN)/python -m tests.cluster --rounds 200 $(if $(SEED),--seed $(SEED))

run-cluster: develop ## three nodes on PostgreSQL behind HAProxy, and a live view while its leader dies every half minute (as root on Debian it installs Debian packages)
	tools/debian-programs haproxy postgresql-15 util-linux
	$(BIN)/python tools/run_cluster.py $(ARGS)

test-az: develop ## the real az against a fleet on this machine (as root; it installs 370 MB under .run/az)
	tools/az-session

test-monitoring: ## alert rules, asked of Prometheus's own promtool (as root on Debian it installs Debian packages)
	tools/debian-programs prometheus
	promtool check rules examples/monitoring/alerts.yml
	cd examples/monitoring && promtool test rules alerts_test.yml

docs: develop ## the docs site with its search, in .run/docs (as root on Debian it installs Debian packages)
	tools/debian-programs chromium-headless-shell
	$(BIN)/python -m mkdocs build --quiet --strict
	@$(BIN)/python -m tools.site.check .run/docs

pictures: develop ## the pictures of the docs again: the console and the terminal (as root on Debian it installs Debian packages)
	tools/debian-programs chromium-headless-shell fonts-dejavu-core
	$(BIN)/python -m tools.pictures

test-host: develop ## real guests under libvirt and QEMU (as root on Debian it installs Debian packages)
	tools/debian-programs $(HYPERVISOR) iproute2 nftables util-linux
	tools/host-programs
	$(BIN)/pytest tests/host -m host

stalls: develop ## do everything to a fleet of a million VMs, and measure the slowest poll of another VM meanwhile
	$(BIN)/python -m tests.promises.stalls --vms 1000000

# The same commit gives the same bytes: dates come from the commit.
dist debian: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: develop ## wheel, sdist, and the agent in one file, in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m building.pyz

debian: dist ## Debian packages of the service and of the agent, in dist/ (as root on Debian it installs Debian packages)
	tools/debian-programs binutils dpkg-dev
	$(BIN)/python -m building.debian

test-debian: debian ## install, upgrade, remove and purge them in a fresh root (as root on Debian it installs Debian packages)
	tools/debian-programs debootstrap lintian
	tools/debian-session

test-kubernetes: develop ## the kubernetes handler, charts and Kustomize bases against a real kube-apiserver, built once in ten minutes into ~/.cache/duenotice (as root on Debian it installs Debian packages)
	tools/debian-programs dpkg-dev etcd-server golang-go openssl
	tools/kubernetes-programs
	CI=true $(BIN)/pytest -m kubernetes tests/kubernetes

test-units: test-debian ## the units under a real systemd, in a container: good days and bad ones (as root on Debian it installs Debian packages)
	tools/debian-programs crun iproute2 netavark podman
	tools/units-session

test-container: dist ## build the image, run it, and play compose.yaml (as root on Debian it installs Debian packages)
	tools/debian-programs aardvark-dns buildah catatonit crun debootstrap iproute2 iptables netavark podman
	tools/container-session

test-wheel: dist ## install the wheel into empty environments on each Python from 3.11 on, and use it there (PYTHONS='3.12')
	$(BIN)/python tools/wheel_session.py $(PYTHONS)

lock: ## write the requirements locks again from pyproject.toml (LOCK=--upgrade for the newest versions)
	$(PYTHON) -m venv .run/uv
	.run/uv/bin/pip install -qq --disable-pip-version-check uv
	echo uv | .run/uv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header - $(LOCK) -o tools/uv.lock
	@# Without libvirt, which has no wheels and is built where libvirt-dev is installed (tools/host-programs).
	$(call compile,--extra all --extra build --extra dev --extra docs) -o requirements-dev.lock
	$(call compile,--extra build --extra server --extra azure -c requirements-dev.lock) -o requirements.lock
	$(call compile,--extra server --extra azure --extra postgres -c requirements-dev.lock) -o requirements-image.lock

compile = .run/uv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url $(1) $(LOCK) pyproject.toml

clean: ## remove everything that make made
	rm -rf .venv .run dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
