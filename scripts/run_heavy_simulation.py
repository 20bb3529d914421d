"""Set up the environment if need be, then run the heavy simulation; arguments are passed on (try --tasks 50000)."""

import sys

from bootstrap import hand_over

if __name__ == "__main__":
    hand_over("heavy", *sys.argv[1:])
