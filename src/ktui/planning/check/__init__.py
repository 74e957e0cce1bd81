"""Checks of a plan against its cluster, before anything is sent."""
