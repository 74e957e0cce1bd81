"""`ktui cancel`: cancels partitions of a run or of a cluster, and opens the cancel gate."""
