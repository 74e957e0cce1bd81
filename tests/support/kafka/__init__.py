"""Real clusters: load, faults, and what their controllers have on record."""
