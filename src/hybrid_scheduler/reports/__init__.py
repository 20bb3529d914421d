"""What a run leaves for people: figures and tables.

Names are imported when first used, and matplotlib when a figure is drawn: most commands need neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .figure_data import Evidence as Evidence
    from .figure_style import house_style as house_style
    from .figure_style import label_of as label_of
    from .figure_style import line_style as line_style
    from .figures import FIGURES as FIGURES
    from .figures import draw as draw
    from .notebook_plots import gantt as gantt

_FILE_OF = {
    "FIGURES": "figures",
    "Evidence": "evidence",
    "draw": "figures",
    "gantt": "notebook",
    "house_style": "style",
    "label_of": "style",
    "line_style": "style",
}

__all__ = sorted(_FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FILE_OF[name]}", __name__), name)
