"""The polling loop, and what its observations show of the cluster as a whole."""
