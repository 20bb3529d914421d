"""Experiments in the simulator: comparisons, sweeps, replays, reports and the pipeline.

Seeds below 1000 are for training and tuning, seeds from 1000 to 2999 for development. Reported figures use seeds
from 3000 on, by which nothing was chosen.
"""

FIRST_DEVELOPMENT_SEED = 1000
FIRST_REPORTED_SEED = 3000
