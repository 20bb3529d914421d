"""Set up the environment and build the dashboard if need be, then run `hybrid-scheduler serve ARGUMENTS`."""

import sys

from bootstrap import asks_for_help, environment_or_exit, hand_over
from build_dashboard import dashboard_or_note

if __name__ == "__main__":
    if not asks_for_help(sys.argv[1:]):
        environment_or_exit()
        try:
            dashboard_or_note()
        except KeyboardInterrupt:
            sys.exit(130)
    hand_over("serve", *sys.argv[1:])
