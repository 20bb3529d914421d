"""Typesetting of the guide as a PDF: pages, drawings and text, used by make_guide_pdf.py."""
