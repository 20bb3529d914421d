"""Set up the environment if need be, then run `hybrid-scheduler simulate`; arguments are passed on."""

import sys

from bootstrap import hand_over

if __name__ == "__main__":
    hand_over("simulate", *(sys.argv[1:] or ["--scenario", "default"]))
