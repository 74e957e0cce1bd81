"""The engine: observe, decide, journal the intents, send, journal the answers."""
