"""A separate process whose groups and transactions commit at a steady rate, each commit timed.

`python -m bench.committing BOOTSTRAP TOPIC TRANSACTIONAL_ID GROUP...` prints a line once all have
committed, and commits until its standard input ends. Then it prints one JSON object: for each
group, and for the transactional id, a list of [time of the first try, seconds until it succeeded],
in the seconds of `time.monotonic`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

COMMITS_S = 20
"""Commits a second of each group, and of the transactional id."""
WARM_UP_S = 3.0
_LIMIT_S = 60.0
_PAUSE_S = 0.01
"""Seconds until a commit that failed is tried again."""

Timed = list[tuple[float, float]]


@contextmanager
def committers(
    bootstrap: str, topic: str, transactional_id: str, groups: Sequence[str]
) -> Iterator[subprocess.Popen[str]]:
    """Run the groups and the transactional id, which commit already; ends with its input."""
    argv = [sys.executable, "-m", "bench.committing", bootstrap, topic, transactional_id]
    with subprocess.Popen(
        [*argv, *groups], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None or not process.stdout.readline():
            raise SystemExit("not measured: the first commits failed")
        time.sleep(WARM_UP_S)
        yield process


def main() -> None:
    """Commit until standard input ends, and print the times."""
    bootstrap, topic, transactional_id, *groups = sys.argv[1:]
    commits = {
        transactional_id: _transaction(bootstrap, topic, transactional_id),
        **{group: _offset_commit(bootstrap, topic, group) for group in groups},
    }
    for commit in commits.values():
        _until_done(commit)
    print("all have committed", flush=True)
    stop = threading.Event()
    timed: dict[str, Timed] = {name: [] for name in commits}
    with ThreadPoolExecutor(len(commits)) as pool:
        running = [
            pool.submit(_commit_steadily, commit, timed[name], stop)
            for name, commit in commits.items()
        ]
        sys.stdin.read()
        stop.set()
        for thread in running:
            thread.result()
    print(json.dumps(timed))


def _commit_steadily(commit: Callable[[], Any], timed: Timed, stop: threading.Event) -> None:
    """Commit at a steady rate; one that is late is followed at once by those due meanwhile."""
    due_s = time.monotonic()
    while not stop.is_set():
        began_s = time.monotonic()
        _until_done(commit)
        timed.append((began_s, time.monotonic() - began_s))
        due_s = max(due_s + 1 / COMMITS_S, time.monotonic() - 1.0)
        stop.wait(max(0.0, due_s - time.monotonic()))


def _offset_commit(bootstrap: str, topic: str, group: str) -> Callable[[], Any]:
    """Return a function that commits an offset of a group without members."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    offsets = iter(range(1, sys.maxsize))

    def commit() -> None:
        place = TopicPartition(topic, 0, next(offsets))
        (outcome,) = consumer.commit(offsets=[place], asynchronous=False)
        if outcome.error is not None:
            raise KafkaException(outcome.error)

    return commit


def _transaction(bootstrap: str, topic: str, transactional_id: str) -> Callable[[], Any]:
    """Return a function that writes a record in a transaction, and commits it."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(_LIMIT_S)

    def commit() -> None:
        producer.begin_transaction()
        producer.produce(topic, b"a record", partition=0)
        try:
            producer.commit_transaction(_LIMIT_S)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                producer.abort_transaction(_LIMIT_S)
            raise

    return commit


def _until_done(commit: Callable[[], Any]) -> None:
    """Commit, and try again until it succeeds.

    Raises:
        KafkaException: it has not within a minute.
    """
    began_s = time.monotonic()
    while True:
        try:
            commit()
        except KafkaException:
            if time.monotonic() - began_s > _LIMIT_S:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


if __name__ == "__main__":
    main()
