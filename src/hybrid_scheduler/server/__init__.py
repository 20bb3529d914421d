"""HTTP and WebSocket interface of a live run."""

from importlib.util import find_spec

from ..core import require

# They are not imported here: the what-if process has modules of this package, and would load them for nothing.
for _library in ("fastapi", "uvicorn", "sqlalchemy"):
    if find_spec(_library) is None:
        require(_library, "the server")
