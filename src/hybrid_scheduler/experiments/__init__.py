"""Experiments on top of the engine: comparisons, sweeps, replays, reports and the pipeline.

Seeds below 1000 are for training and tuning, those from 1000 to 2999 for looking at results while developing.
Reported figures use seeds from 3000 on, by which nothing was chosen.
"""

FIRST_REPORTED_SEED = 3000
