"""The dialogs in which a plan is chosen, started or added to a run."""
