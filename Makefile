# Shortcuts for users of make; each target is also a plain command.
PYTHON := .venv/bin/python

.PHONY: help results results-quick test lint

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

results: ## write RESULTS.md with its tables and figures, the exact optima and the gallery (half an hour on two cores)
	$(PYTHON) -m studies.results_book
	$(PYTHON) -m studies.exact_makespan > docs/results/evidence/exact.txt
	$(PYTHON) -m studies.trace_coverage > docs/results/evidence/trace_coverage.txt
	$(PYTHON) -m studies.trace_coverage --tasks 20000 --traces 100 >> docs/results/evidence/trace_coverage.txt
	$(PYTHON) -m studies.gallery
	$(PYTHON) scripts/make_reference.py

results-quick: ## the same with two small seeds, into data/results/book
	$(PYTHON) -m studies.results_book --quick

test: ## all checks and tests
	./run_tests.sh

lint: ## ruff, mypy, import contracts
	./run_tests.sh --lint
