"""The Brokers screen: what the reassignments ask of each broker."""
