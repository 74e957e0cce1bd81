"""Support for real clusters: load, faults, and the records of their controllers."""
