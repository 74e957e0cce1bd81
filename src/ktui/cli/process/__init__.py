"""The process of a run: launched, taken up again, and asked to do something."""
