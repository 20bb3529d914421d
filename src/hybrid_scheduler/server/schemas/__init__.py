"""Models of REST bodies and stream messages; responses that are records of the program are not repeated here."""
