"""`ktui plan`: check a plan, or make one from a run."""
