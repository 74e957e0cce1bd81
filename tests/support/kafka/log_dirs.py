"""Log dirs that fail on a running broker."""

from __future__ import annotations

SOON = {"replica.high.watermark.checkpoint.interval.ms": "500"}
"""Settings of a lab whose brokers write to each log dir twice a second, and so notice a failure."""
