"""How far off ktui's forecasts are, on recorded real runs and on simulated ones."""
