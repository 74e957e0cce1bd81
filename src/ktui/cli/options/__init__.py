"""Options that several verbs share, and the reading of their values."""
