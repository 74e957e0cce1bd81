"""Forecasts held against what came, and insights for later runs."""
