"""The twin of a real cluster: read through its port, and written as a scenario file."""
