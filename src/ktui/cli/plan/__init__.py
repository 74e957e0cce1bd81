"""`ktui plan`: check a plan, or make one of a run."""
