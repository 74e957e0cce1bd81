"""`ktui doctor`: what should be fixed before anything moves."""
