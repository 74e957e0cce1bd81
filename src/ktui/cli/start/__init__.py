"""`ktui start` and `ktui resume`."""
