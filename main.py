"""Set up the environment if need be, then run the five-phase pipeline; arguments are passed on (try --quick)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))

from bootstrap import hand_over

if __name__ == "__main__":
    hand_over("pipeline", *sys.argv[1:])
