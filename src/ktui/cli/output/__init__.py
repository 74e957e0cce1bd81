"""Text and JSON that several verbs print."""
