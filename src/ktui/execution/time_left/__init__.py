"""How long the rest of a run takes, played forward by what its copies have shown."""
