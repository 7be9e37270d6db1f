# Two commands are all a newcomer needs: `make up` and `make test`. The rest is for working on Replog.
#
# SHORT=1 gives torture, interop, zookeeper, sim and bench a form that fits in a continuous-integration run.

VENV ?= .venv
BROKERS ?= 3
PORT ?= 9092
DATA ?=
SHORT ?=

# The first interpreter that is new enough. Override with `make PYTHON=/path/to/python3.12 ...`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

# Tests and tools start brokers by the hundred: without bytecode each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
REPLOG := $(BIN)/replog
INTEROP := tests/interop
JARS := $(INTEROP)/java/jars
# One client is built from C++, which takes minutes, and Connect brings a web server: the short form goes
# without them.
PROGRAMS := $(INTEROP)/java/classes/.built $(INTEROP)/go/bin/.built $(INTEROP)/node/node_modules/.fetched \
	$(if $(SHORT),,$(INTEROP)/node-librdkafka/node_modules/.fetched $(INTEROP)/java-connect/jars/.fetched)
NEEDS_NODE := command -v node >/dev/null && command -v npm >/dev/null || { echo "Node.js, 18 or newer, and" \
	"npm are missing: install them, e.g. with 'apt-get install nodejs npm'"; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help up down test conformance conformance-record check format sim sim-proof torture interop interop-programs zookeeper bench wheel clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

up: $(VENV)/.tools ## install, start three brokers in the background, say where they are
	@$(REPLOG) up --brokers $(BROKERS) --port $(PORT) $(if $(DATA),--data "$(DATA)") --detach
	@echo "from here          make down"

down: ## stop the brokers that `make up` started; their data stays
	@test -x $(REPLOG) || { echo "nothing was started from here: 'make up' does that"; exit 1; }
	@$(REPLOG) down $(if $(DATA),--data "$(DATA)")

test: $(VENV)/.dev ## run all tests (less than eight minutes on two cores)
	$(BIN)/pytest

conformance: $(VENV)/.dev ## compare all answers that were recorded from Apache Kafka, at every version
	REPLOG_CONFORMANCE=all $(BIN)/pytest tests/conformance

conformance-record: $(VENV)/.dev $(JARS)/.fetched ## ask Apache Kafka again what it answers (ONLY=regex: some)
	$(BIN)/python -m tests.conformance.record $(if $(ONLY),'$(ONLY)')

check: $(VENV)/.dev ## lint, format, types and the floors of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## let ruff put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sim: $(VENV)/.dev ## play random faults against three simulated brokers
	$(REPLOG) sim --every-fault --seed 1 $(if $(SHORT),--seeds 60 --duration 10,--seeds 200 --duration 30)

sim-proof: $(VENV)/.dev ## plant bugs, one after the other, and see that simulated seeds find each
	$(BIN)/python -m tests.sim.proof $(if $(SHORT),--seeds 300 --healthy 40)

torture: $(VENV)/.dev ## kill, freeze and cut off real brokers under real clients for half an hour
	$(BIN)/python -m tests.faults.torture --minutes $(if $(SHORT),3,30)

interop-programs: $(PROGRAMS) ## only fetch and build what `make interop` runs

interop: $(VENV)/.dev interop-programs ## clients of all languages and Apache Kafka's tools against a cluster
	@command -v kcat >/dev/null || { \
		echo "kcat is missing: install it, e.g. with 'apt-get install kcat' or 'brew install kcat'"; exit 1; }
	$(if $(SHORT),,REPLOG_CLIENT_RECORDS=100000 $(BIN)/pytest tests/clients)
	REPLOG_INTEROP=1 REPLOG_INTEROP_MEGABYTES=$(if $(SHORT),4,40) $(if $(SHORT),REPLOG_INTEROP_SHORT=1 )\
	$(if $(SHORT),,REPLOG_INTEROP_PAGE=docs/clients.md) $(BIN)/pytest tests/interop

zookeeper: $(VENV)/.dev ## clusters that meet in ZooKeeper: killed, cut off, without a quorum, on machines
	REPLOG_ZOOKEEPER=1 REPLOG_KILLS=$(if $(SHORT),5,20) REPLOG_QUORUM_AWAY_S=$(if $(SHORT),15,60) \
		$(BIN)/pytest tests/zookeeper

bench: $(VENV)/.tools ## measure a local cluster and a log, beside what this machine can do at best
	$(BIN)/python bench/run.py $(if $(SHORT),--short)
	$(BIN)/python bench/log.py $(if $(SHORT),--short)
	$(BIN)/python bench/failover.py $(if $(SHORT),--kills 3 --freezes 1)
	$(BIN)/python bench/idle.py $(if $(SHORT),--seconds 10)
	$(BIN)/python bench/partitions.py $(if $(SHORT),--partitions 300)

wheel: $(VENV)/.dev ## build dist/replog-*.whl and the source archive
	$(BIN)/python -m build

clean: ## remove the virtual environment, builds and caches (not the brokers' data)
	rm -rf "$(VENV)" build dist bench/bin .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
		$(INTEROP)/*/jars $(INTEROP)/*/classes $(INTEROP)/go/bin $(INTEROP)/*/node_modules

$(INTEROP)/%/jars/.fetched: $(INTEROP)/%/pom.xml
	@command -v javac >/dev/null && command -v mvn >/dev/null || { echo "A JDK, 17 or newer, and Maven are" \
		"missing: install them, e.g. with 'apt-get install openjdk-17-jdk-headless maven'"; exit 1; }
	rm -rf $(@D)
	cd $(<D) && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=jars
	@touch $@

$(INTEROP)/java/classes/.built: $(JARS)/.fetched $(wildcard $(INTEROP)/java/*.java)
	javac -d $(@D) -cp '$(JARS)/*' $(filter %.java,$^)
	@touch $@

$(INTEROP)/go/bin/.built: $(wildcard $(INTEROP)/go/go.* $(INTEROP)/go/*/*.go)
	@command -v go >/dev/null || { echo "Go is missing: install it from https://go.dev/dl, in the version" \
		"that $(INTEROP)/go/go.mod names, or newer"; exit 1; }
	cd $(INTEROP)/go && go build -o bin/ ./...
	@touch $@

$(INTEROP)/node/node_modules/.fetched: $(INTEROP)/node/package.json
	@$(NEEDS_NODE)
	cd $(INTEROP)/node && npm install --silent
	@touch $@

# The published binary is not for every machine; what it is built from is in the package. Its static form
# would fetch more sources, and Node's headers lie beside Node.
$(INTEROP)/node-librdkafka/node_modules/.fetched: $(INTEROP)/node-librdkafka/package.json
	@$(NEEDS_NODE)
	cd $(INTEROP)/node-librdkafka && CKJS_LINKING=dynamic npm_config_build_from_source=true \
		npm_config_nodedir="$$(dirname "$$(dirname "$$(node -p process.execPath)")")" npm install --silent
	@touch $@

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Replog needs Python 3.11 or newer, and no python3 here is." \
		"Install one, or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv "$(VENV)"

$(VENV)/.tools: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[tools]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.tools
