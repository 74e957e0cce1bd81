"""What ktui does for the user's shell."""
