"""`python -m hybrid_scheduler` is the command `hybrid-scheduler`."""

from .cli import main

if __name__ == "__main__":
    main()
