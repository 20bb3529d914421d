"""What make_guide_pdf.py needs to set the guide: pages, drawings, type."""
