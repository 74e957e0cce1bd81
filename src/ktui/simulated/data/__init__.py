"""Partition logs, and their replication through networks, disks and throttles."""
