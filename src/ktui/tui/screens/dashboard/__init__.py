"""The dashboard: the flow of copies, the brokers, the run, and a map of all partitions."""
