"""A real throwaway Kafka on this machine: a KRaft controller and its brokers, on 127.0.0.1."""
