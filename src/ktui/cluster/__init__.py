"""The words of a Kafka cluster, the ports to one, and the polling loop on them."""
