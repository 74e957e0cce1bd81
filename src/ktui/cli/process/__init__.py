"""The engine of a run: launched, resumed, and sent commands."""
