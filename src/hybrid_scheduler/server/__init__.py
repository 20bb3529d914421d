"""HTTP and WebSocket interface of a live run."""
