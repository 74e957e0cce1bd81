"""Play recordings, and go on from their moments otherwise: `ktui replay`."""
