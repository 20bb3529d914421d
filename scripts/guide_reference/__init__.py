"""Generators of the reference pages, one module per kind of page, used by make_reference.py."""
