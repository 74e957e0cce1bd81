"""Apache Kafka's kafka-reassign-partitions and `ktui reassign`, held against each other."""
