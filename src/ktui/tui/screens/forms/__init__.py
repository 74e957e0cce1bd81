"""Forms that several dialogs share."""
