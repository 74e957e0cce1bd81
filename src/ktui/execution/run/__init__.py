"""A run of a plan as a value: its events, and the fold that makes its state of them."""
