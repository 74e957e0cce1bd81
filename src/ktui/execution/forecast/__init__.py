"""How far a run is, how fast it copies, and when it may end."""
