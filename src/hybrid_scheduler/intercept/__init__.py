"""Unchanged programs on a GPU: heavy library functions choose their device call by call.

`accelerate` replaces entries of NumPy and SciPy by callables that consult a learned choice first. A helper process
owns torch and CUDA; the program itself never imports them.
"""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .acceleration import Acceleration as Acceleration
    from .acceleration import accelerate as accelerate
    from .acceleration import load_ipython_extension as load_ipython_extension
    from .acceleration import unload_ipython_extension as unload_ipython_extension

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
