"""Plans of reassignments: read, checked by themselves and against a cluster, and written."""
