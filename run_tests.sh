#!/usr/bin/env bash
# The checks and the tests: see scripts/run_tests.py, which also runs where there is no bash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/find_python.sh
exec "$PYTHON" scripts/run_tests.py "$@"
