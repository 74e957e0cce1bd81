"""The dialogs on the attached run: limits, throttle, cancel, resume."""
