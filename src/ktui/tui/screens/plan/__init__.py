"""The dialogs to choose a plan, start it, or add it to a run."""
