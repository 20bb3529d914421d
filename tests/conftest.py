"""Shared by all tests: fixed seeds for hypothesis, so that a failure can be repeated."""

import signal
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # `import reference`, `import strategies`

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("fixed")

# In the background of a shell Ctrl-C is ignored, and programs that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
