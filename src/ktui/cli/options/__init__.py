"""Options that several verbs share, and their values."""
