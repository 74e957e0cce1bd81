"""`ktui reassign`: the command line of kafka-reassign-partitions.sh, with more actions."""
