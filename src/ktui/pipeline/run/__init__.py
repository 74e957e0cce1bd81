"""Runs of the pipeline, which add new recordings to a lake, and the check of a lake."""
