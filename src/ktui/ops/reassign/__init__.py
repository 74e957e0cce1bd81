"""The use cases of `ktui reassign`: plans that Kafka carries on alone, with Apache's words."""
