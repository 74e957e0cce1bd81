"""What earlier runs tell: a small file that the pipeline writes and everybody reads."""
