"""The request that removes a broker's registration (KIP-631).

kafka-python knows its API key and has no class for it. The two JSON files beside this module are
Kafka's definitions of the request and the response.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka.protocol.api_message import ApiMessage


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """UnregisterBroker, API key 64. A broker forwards it to the active controller."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """The controller's answer: an error code for the request as a whole, and a message."""


def unregister_request(broker: int) -> Any:
    """Build a request to remove the registration of one broker."""
    return UnregisterBrokerRequest(broker_id=broker)


def read_unregister_result(broker: int, answer: Any) -> Iterator[tuple[int, int, str | None]]:
    """Yield the broker with the error code and the controller's message."""
    yield broker, answer.error_code, answer.error_message
