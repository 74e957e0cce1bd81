"""Runs on this machine: state directory, ownership, processes, export and import."""
