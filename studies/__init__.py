"""Studies behind the published numbers; each runs as `python -m studies.NAME`."""
