"""Agent that adapts late binding to the regime: its policy, its training, and its files."""
