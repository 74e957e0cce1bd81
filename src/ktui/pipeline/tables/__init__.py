"""The tables made of samples, polls and the events of runs."""
