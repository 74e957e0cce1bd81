"""`ktui watch` and `ktui demo`: the live view."""
