"""The Kafka clients' logging: kept off the terminal, and without the requests they send."""

from __future__ import annotations

import logging

log = logging.getLogger("ktui.kafka.client")


class _Forward(logging.Handler):
    """A handler that forwards a client's record as a debug record of ktui."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the client's level and message; its traceback would add nothing."""
        log.debug("%s %s: %s", record.levelname, record.name, record.getMessage())


def redirect_client_log(name: str) -> logging.Logger:
    """Route a client's logger to `ktui.kafka.client` at debug level. Idempotent.

    Records below INFO are dropped. kafka-python's debug records print requests in full, and one of
    these requests carries the password.
    """
    client = logging.getLogger(name)
    client.propagate = False
    client.setLevel(logging.INFO)
    if not any(isinstance(handler, _Forward) for handler in client.handlers):
        client.addHandler(_Forward())
    return client
