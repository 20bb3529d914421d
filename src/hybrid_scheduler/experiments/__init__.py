"""Studies that use the engine and write down what they found.

Seeds below 1000 are for training and tuning, those from 1000 to 2999 for looking at results while developing.
Figures that are reported use seeds from 3000 on, which nobody has chosen anything by.
"""

FIRST_REPORTED_SEED = 3000
