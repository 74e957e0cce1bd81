"""How one move goes on, from poll to poll: its lanes, its copying, its time left."""
