"""Forecasts compared with the truth, what other limits would have done, insights for later runs."""
