"""A plan before it is started: what it moves, what it costs, and how long it takes."""
