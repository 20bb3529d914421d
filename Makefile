# Doors for people who expect make; every one is also a plain command.
PYTHON := .venv/bin/python

.PHONY: results results-quick test lint

results: ## RESULTS.md with its tables and figures, and the exact optima: some minutes on one core
	$(PYTHON) -m hybrid_scheduler.experiments.results_book
	$(PYTHON) -m hybrid_scheduler.experiments.exact > docs/results/evidence/exact.txt

results-quick: ## the same book with two small seeds, into data/results/book
	$(PYTHON) -m hybrid_scheduler.experiments.results_book --quick

test:
	./run_tests.sh

lint:
	./run_tests.sh --lint
