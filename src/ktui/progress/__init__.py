"""Fold observations into timelines, rates, time left and stalls with a cause; pure."""
