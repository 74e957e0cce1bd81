"""What kafka-reassign-partitions prints."""
