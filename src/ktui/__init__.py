"""ktui: live management of Kafka partition reassignments."""

__version__ = "0.1.0"
