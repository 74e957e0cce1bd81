"""The transport: one pool of connections, with retries, time limits and typed errors."""
