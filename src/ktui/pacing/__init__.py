"""Pacing: pure functions that cut a reassignment into steps and choose who steps now."""
