"""`ktui doctor`: what to fix before any partition moves."""
