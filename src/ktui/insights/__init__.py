"""Insights from earlier runs, in a small file that the pipeline writes and all others read."""
