# Sourced by the shell scripts: sets PYTHON to the first interpreter that the project supports. One that the variable
# names already comes first: PYTHON=/usr/bin/python3 ./run_tests.sh
# Each candidate is run, not only looked up: a version manager's shim can be on the PATH and still fail.
wanted=${PYTHON:-}
for PYTHON in ${wanted:+"$wanted"} python3.13 python3.12 python3.11 python3 python ""; do
    if [ -z "$PYTHON" ]; then
        echo "error: no Python 3.11, 3.12 or 3.13 found" >&2
        echo "hint: install one (python.org, your package manager, pyenv) and put it on the PATH" >&2
        exit 1
    fi
    supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))'
    if "$PYTHON" -c "$supported" </dev/null >/dev/null 2>&1; then break; fi
done
if [ -n "$wanted" ] && [ "$PYTHON" != "$wanted" ]; then
    echo "PYTHON=$wanted is not Python 3.11, 3.12 or 3.13: using $PYTHON" >&2
fi
