"""`ktui plan`: check a plan, or make one from an intention or a run."""
