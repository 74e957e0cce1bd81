"""The files that kafka-reassign-partitions reads and writes."""
