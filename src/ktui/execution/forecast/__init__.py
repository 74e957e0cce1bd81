"""The progress of a run, why partitions wait, and its end, in words and in figures."""
