"""Requests and answers over one pool of connections, with retries and time limits."""
