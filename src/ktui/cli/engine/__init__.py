"""`ktui engine`: the process that runs the engine of a run, and its log."""
