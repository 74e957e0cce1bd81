"""A cluster in memory that keeps KRaft's rules, with bandwidth, faults and a clock of its own."""
