"""`ktui snapshot`: save the twin of a cluster."""
