"""One page that tells of a run or a cluster: made from the lake, and needs no network."""
