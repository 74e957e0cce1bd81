"""`ktui lab`: a real, throwaway Kafka on this machine."""
