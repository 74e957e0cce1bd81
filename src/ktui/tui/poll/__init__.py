"""The polling loop, and what its observations say of the cluster as a whole."""
