"""The progress of a run, its copy rates, and the forecast of its end."""
