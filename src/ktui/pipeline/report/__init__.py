"""The report on a run or a cluster: one page made from the lake, which needs no network."""
