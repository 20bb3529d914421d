# Shortcuts for users of make; each target is also a plain command.
PYTHON := .venv/bin/python

.PHONY: help results results-quick test lint

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

results: ## measure everything and write RESULTS.md, the tables, the scheduler pages and quoted figures (an hour on two cores)
	$(PYTHON) -m studies.results_book --measure --write
	$(PYTHON) -m studies.gallery
	$(PYTHON) scripts/make_reference.py
	$(PYTHON) -m studies.quoted_figures

results-quick: ## the same with two small seeds, into data/results/book
	$(PYTHON) -m studies.results_book --measure --write --quick

test: ## all checks and tests
	./run_tests.sh

lint: ## ruff, mypy, import contracts
	./run_tests.sh --lint
