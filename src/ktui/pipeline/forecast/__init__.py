"""Forecasts compared with the truth, and insights for later runs."""
