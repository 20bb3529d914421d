#!/usr/bin/env bash
# Starts the product: see scripts/run_live_dashboard.py, which also runs where there is no bash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/find_python.sh
exec "$PYTHON" scripts/run_live_dashboard.py "$@"
