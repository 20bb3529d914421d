"""Entry point of `python -m hybrid_scheduler`, the same as the command `hybrid-scheduler`."""

from .cli import main

if __name__ == "__main__":
    main()
