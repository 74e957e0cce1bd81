"""The clients' own logging, kept off the terminal and free of what they send."""

from __future__ import annotations

import logging

log = logging.getLogger("ktui.kafka.client")


class _Onward(logging.Handler):
    """Passes a client's record on as a debug record of ktui."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the client's level and words; its traceback would say nothing more."""
        log.debug("%s %s: %s", record.levelname, record.name, record.getMessage())


def hush(name: str) -> logging.Logger:
    """Route a client's logger to `ktui.kafka.client` at debug level. Idempotent.

    Below INFO nothing is kept: kafka-python's debug records print requests in full, and one
    of these requests carries the password.
    """
    client = logging.getLogger(name)
    client.propagate = False
    client.setLevel(logging.INFO)
    if not any(isinstance(handler, _Onward) for handler in client.handlers):
        client.addHandler(_Onward())
    return client
