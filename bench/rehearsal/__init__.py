"""How far off rehearsals are: plans rehearsed from snapshots of a lab, and then run there."""
