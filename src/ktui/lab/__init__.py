"""A real, throwaway Kafka cluster on this machine: a KRaft controller and brokers on 127.0.0.1."""
