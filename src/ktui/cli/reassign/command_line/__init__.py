"""The command line of kafka-reassign-partitions, parsed and checked as the tool does."""
