"""The clusters of the contract tests, and sequences of changes played on each."""
