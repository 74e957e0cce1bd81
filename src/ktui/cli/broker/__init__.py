"""`ktui broker`: what one broker holds, and the way out of it."""
