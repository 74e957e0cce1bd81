"""The terminal application: draws and asks, decides nothing."""
