"""`ktui cancel`: partitions of a run, the whole cluster, and the cancel gate."""
