"""`ktui reassign`: the actions, options and output of kafka-reassign-partitions."""
