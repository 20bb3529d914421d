# Shortcuts; each target is also a plain command.
PYTHON := .venv/bin/python

.PHONY: results results-quick test lint

results: ## RESULTS.md with its tables and figures, the exact optima, the gallery: half an hour on two cores
	$(PYTHON) -m studies.results_book
	$(PYTHON) -m studies.exact_makespan > docs/results/evidence/exact.txt
	$(PYTHON) -m studies.trace_coverage > docs/results/evidence/trace_coverage.txt
	$(PYTHON) -m studies.trace_coverage --tasks 20000 --traces 100 >> docs/results/evidence/trace_coverage.txt
	$(PYTHON) -m studies.gallery
	$(PYTHON) scripts/make_reference.py

results-quick: ## the same page with two small seeds, into data/results/book
	$(PYTHON) -m studies.results_book --quick

test:
	./run_tests.sh

lint:
	./run_tests.sh --lint
