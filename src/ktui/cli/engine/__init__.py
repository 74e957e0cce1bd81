"""`ktui engine`: the process that carries a run on, and its log."""
