"""Program that Python runs in place of a script, to run the script with `accelerate` in effect.

Its name contains "importlib" and "_bootstrap", because `warnings` does not count the frames of such files: a
warning for the caller of a script is then reported for "sys", as without us. Its frame is cut from tracebacks.
"""

import sys

_before = set(sys.modules)
if not sys.flags.safe_path:
    del sys.path[0]  # this folder, whose modules are not the script's

import importlib.util  # noqa: E402
import os  # noqa: E402

_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_spec = importlib.util.spec_from_file_location("hybrid_scheduler", os.path.join(_root, "__init__.py"))
assert _spec is not None
assert _spec.loader is not None
sys.modules["hybrid_scheduler"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["hybrid_scheduler"])

from hybrid_scheduler.intercept import script_runner  # noqa: E402

try:
    _run, _arguments = script_runner.prepared(sys.argv[1], _before)
    _run(*_arguments)
except BaseException:
    script_runner.cut_traceback(__file__)
    raise
