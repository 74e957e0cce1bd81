"""`ktui record` and `ktui replay`: record a cluster, and play recordings."""
