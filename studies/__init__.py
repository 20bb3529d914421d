"""Published studies: one module per table or figure, run as `python -m studies.NAME`."""
