"""What was seen of a cluster, kept as files and played again."""
