"""Tables derived from samples, polls and the events of runs."""
