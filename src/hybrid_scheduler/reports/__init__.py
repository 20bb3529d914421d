"""Figures, tables and documents of runs.

Names are imported when first used, and matplotlib when a figure is drawn: most commands need neither.
"""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .figure_data import FigureData as FigureData
    from .figure_style import apply_style as apply_style
    from .figure_style import label_of as label_of
    from .figure_style import line_style as line_style
    from .figures import FIGURES as FIGURES
    from .figures import draw as draw
    from .figures import gantt as gantt

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
