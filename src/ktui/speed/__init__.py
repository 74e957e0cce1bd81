"""How long a run takes: the rate of each copy, the time of each step and of the whole."""
