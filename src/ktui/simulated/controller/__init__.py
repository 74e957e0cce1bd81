"""The KRaft controller: its records and its decisions, for several Kafka versions."""
