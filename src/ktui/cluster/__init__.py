"""The model of a Kafka cluster, the ports to one, and the loop that polls it."""
