"""How producers feel a run, and how well an objective is held."""
