"""Logs, and how followers copy them through networks, disks and throttles."""
