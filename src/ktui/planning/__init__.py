"""Reassignment plans: reading, checking (alone and against a cluster), and writing them."""
