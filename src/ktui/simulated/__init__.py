"""An in-memory cluster that follows KRaft's rules, with bandwidth, faults and its own clock."""
