"""`ktui lab`: a real throwaway Kafka."""
