"""Pure functions: outcomes in, numbers out."""

from .summary import Charges, Spread, Summary, jain_index, summarise, win_rates

__all__ = ["Charges", "Spread", "Summary", "jain_index", "summarise", "win_rates"]
