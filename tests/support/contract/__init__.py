"""The contract tests' worlds, and sequences of changes played on each."""
