"""Runs of ktui on real brokers, whatever is measured of them."""
