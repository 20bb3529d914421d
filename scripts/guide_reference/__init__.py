"""What make_reference.py writes, one file per kind of page. Nothing is imported before it is needed."""
