"""HTTP and WebSocket interface of a live run."""

from ..core import require

for _library in ("fastapi", "uvicorn", "sqlalchemy"):
    require(_library, "the server")
