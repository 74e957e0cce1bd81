"""A run of a plan as a value: its events, and the fold that turns them into its state."""
