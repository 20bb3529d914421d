"""Studies behind the reported numbers; each runs as `python -m studies.NAME`."""
