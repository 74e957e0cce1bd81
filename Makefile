# Everything a newcomer or CI does. `make help` lists it.
PYTHON ?= python3
BIN := .venv/bin
PROGRAM := .venv/program
INSTALLED := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo lab test soak bench screenshot check format clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

install: $(INSTALLED) ## .venv with everything for development; then .venv/bin/ktui works

$(PROGRAM): pyproject.toml constraints.txt
	@echo "Installing ktui and what it needs into .venv, once."
	@scripts/install.sh "$(PYTHON)" .
	@touch $@

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Installing ktui and everything for its development into .venv, once: about a minute."
	@scripts/install.sh "$(PYTHON)" '.[dev]'
	@touch $(PROGRAM) $@

demo: $(PROGRAM) ## the live view on a simulated cluster; others: make demo SCENARIO=hot-leader, SCENARIO=--tour
	$(BIN)/ktui demo $(SCENARIO)

java: # the real Kafka of `make lab` and `make test` needs Java and Maven
	@scripts/ensure-java.sh
.PHONY: java

browser: # `make test` looks at reports in a real browser
	@scripts/ensure-browser.sh
.PHONY: browser

lab: $(PROGRAM) java ## a real Kafka with a reassignment under way, and the live view on it
	$(BIN)/ktui lab demo

# A cluster and Spark often wait: five processes keep two processors busy to the end.
WORKERS ?= 5
GROUPED := --dist loadgroup --no-loadscope-reorder --durations 30

# Compiled code is kept: hundreds of short processes would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE

test: $(INSTALLED) java browser ## every test, on a real Kafka that it starts itself
	@$(MAKE) --no-print-directory -j2 check rewritten
	$(BIN)/python -m pytest -m 'not soak' -n $(WORKERS) $(GROUPED)

test-sail: java ## the pipeline's tables on Sail: with pyspark-client, and with a whole PySpark 4.2
	@scripts/install-sail.sh "$(PYTHON)"
	@for each in client whole; do \
		KTUI_TEST_ENGINE=sail .venv-sail/$$each/bin/python -m pytest tests/pipeline \
			-m 'not soak and not kafka' -n 2 $(GROUPED) || exit 1; done
.PHONY: test-sail

# Whole runs of the engine take too long for this: make test-quick QUICK=tests/unit has them, too.
QUICK ?= $(addprefix tests/unit/,cluster pacing planning preview progress speed cli/cancel cli/plan \
	execution/cancel execution/forecast execution/journal execution/run execution/time_left)

test-quick: $(INSTALLED) ## the core: plans, pacing, progress, cancels and the journal
	$(BIN)/python -m pytest -m 'not kafka and not soak' -n $(WORKERS) $(GROUPED) $(QUICK)
.PHONY: test-quick

# pytest rewrites the asserts of every test: once for all its processes; the tests report what fails.
rewritten: $(INSTALLED)
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null || true
.PHONY: rewritten

soak: $(INSTALLED) java ## the large counts, and the contract on every supported Kafka
	$(BIN)/python -m pytest -m soak
	$(BIN)/python -m pytest -m 'hypothesis and not soak and not kafka' --hypothesis-profile soak
	PYTHONPATH=tests $(BIN)/python -m support.chaos.soak
	for version in $$($(BIN)/python -c "from ktui.lab.layout import VERSIONS; print(*VERSIONS[1:])"); do \
		KTUI_TEST_KAFKA=$$version $(BIN)/python -m pytest tests/contract || exit 1; done

kafka: $(INSTALLED) java ## what a release of Kafka changes, on one page: make kafka VERSION=4.5.0
	PYTHONPATH=tests $(BIN)/python -m support.contract.record_release $(VERSION) $(if $(AGAINST),--against $(AGAINST))
.PHONY: kafka

reassign-record-own: $(INSTALLED) java ## record anew what ktui does where it differs on purpose
	PYTHONPATH=tests $(BIN)/python -m support.reassign_tool.record_own
.PHONY: reassign-record-own

bench: $(INSTALLED) java ## figures, as ratios in one run; never part of the tests
	$(BIN)/python -m bench

screenshot: $(INSTALLED) ## the pictures of the documentation, drawn anew from the demo
	$(BIN)/python scripts/draw_demo.py

example-report: $(INSTALLED) java ## docs/example-report.html, made anew from runs on a simulated cluster
	PYTHONPATH=tests $(BIN)/python scripts/example_report.py
.PHONY: example-report

situations: $(INSTALLED) ## pictures of what an operator may meet, in terminals of three sizes, in build/situations
	PYTHONPATH=tests $(BIN)/python scripts/draw_situations.py build/situations
.PHONY: situations

docs: $(INSTALLED) ## docs/ as a site, in build/site; broken links fail it
	$(BIN)/zensical build --strict
.PHONY: docs

check: $(INSTALLED) ## ruff, mypy --strict, import-linter, and names that no longer exist
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/stale_names.py

format: $(INSTALLED) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the above made
	rm -rf .venv dist build tests/out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
