"""A run of the pipeline: new recordings go into the next version of a lake."""
