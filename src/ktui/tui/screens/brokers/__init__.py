"""The Brokers screen: the load that reassignments put on each broker."""
