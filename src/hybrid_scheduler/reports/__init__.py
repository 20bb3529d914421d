"""What a run leaves for people: figures and tables. matplotlib is imported when a figure is drawn."""
