"""A separate process that writes at a steady rate with acks=all and times each acknowledgement.

`python -m bench.producing BOOTSTRAP TOPIC PARTITIONS BYTES_S` writes until its standard input ends.
Then it prints one JSON array: [time of sending, seconds until acknowledged, partition] of each
message, in the seconds of `time.monotonic`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from confluent_kafka import Producer

MESSAGE_BYTES = 32_768
_TURN_S = 0.005
_LIMIT_S = 120.0


def main() -> None:
    """Write until standard input ends, and print the times."""
    bootstrap, topic, partitions, bytes_s = sys.argv[1:]
    stop = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(stop,), daemon=True).start()
    print(json.dumps(_produce(bootstrap, topic, int(partitions), float(bytes_s), stop)))


def _wait_for_the_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def _produce(
    bootstrap: str, topic: str, partitions: int, bytes_s: float, stop: threading.Event
) -> list[tuple[float, float, int]]:
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5}
    producer = Producer({**settings, "message.timeout.ms": int(_LIMIT_S * 1000)})
    value = bytes(MESSAGE_BYTES)
    timed: list[tuple[float, float, int]] = []

    def send(partition: int) -> None:
        sent_s = time.monotonic()

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                raise SystemExit(f"a message was lost: {error}")
            timed.append((sent_s, time.monotonic() - sent_s, partition))

        producer.produce(topic, value, partition=partition, on_delivery=delivered)

    began_s, sent = time.monotonic(), 0
    while not stop.is_set():
        due = int((time.monotonic() - began_s) * bytes_s / MESSAGE_BYTES)
        for number in range(sent, due):
            send(number % partitions)
        sent = due
        producer.poll(_TURN_S)
    producer.flush(_LIMIT_S)
    return timed


if __name__ == "__main__":
    main()
