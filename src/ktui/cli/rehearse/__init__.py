"""`ktui rehearse`: a plan on a simulated twin of its cluster."""
