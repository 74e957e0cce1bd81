"""The way out of a broker, and the way back."""
