"""`ktui watch` and `ktui demo`: the live view of a real or simulated cluster."""
