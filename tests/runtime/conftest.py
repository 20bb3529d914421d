"""Few threads for tests that run real kernels: they share the machine with other tests."""

from torch_threads import one_thread

__all__ = ["one_thread"]
