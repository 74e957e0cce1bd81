"""Hide the names in a recording that is to be shared, each name always in the same way.

A name becomes its kind and twelve digits of HMAC-SHA256, such as topic-3f9c01d2a7be. With the same
key a name has the same digits in every recording. Without the key nobody can try names out. Numbers
stay: of brokers, partitions and ports, offsets, bytes, times. So does the mark of a simulated
cluster, which a copy of a rehearsal's recording must not lose.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.cluster.simulated_id import is_simulated, marked, simulated_id
from ktui.recording.lines import AnyLine, CensusLine, End, Head, LostPollLine, PollLine, RunLine
from ktui.recording.redact_events import redact_event
from ktui.recording.redact_text import WordHider

_DIGITS, _SESSION_DIGITS = 12, 32
_CLUSTER = "cluster"


class Redaction:
    """Hides names in lines. Hidden names are recognized in later free texts, too.

    Args:
        key: the HMAC key. While it is secret, nobody can find out the names.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._words = WordHider(lambda name: self._hidden("name", name))

    def __call__(self, line: AnyLine) -> AnyLine:
        """Return a line without names."""
        match line:
            case Head():
                return self.head(line)
            case PollLine():
                return self._poll_line(line)
            case LostPollLine():
                return msgspec.structs.replace(line, reason=self.text(line.reason))
            case RunLine():
                return self._run_line(line)
            case End():
                return line

    def hide(self, kind: str, name: str) -> str:
        """Return the replacement of a name; an empty text stays empty."""
        if not name:
            return name
        hidden = self._hidden(kind, name)
        self._words.learn(name, hidden)
        return hidden

    def text(self, text: str) -> str:
        """Return a free text in which every word but figures and plain words is hidden."""
        return self._words.hidden(text)

    def head(self, head: Head) -> Head:
        """Return a segment's first line without names, and with another session id."""
        return msgspec.structs.replace(
            head,
            session=self._digest(head.session)[:_SESSION_DIGITS],
            cluster_id=self.hide(_CLUSTER, head.cluster_id),
            cluster=head.cluster and marked(self.hide(_CLUSTER, head.cluster), head.cluster_id),
            redacted=True,
        )

    def _hidden(self, kind: str, name: str) -> str:
        hidden = f"{kind}-{self._digest(name)[:_DIGITS]}"
        return simulated_id(hidden) if kind == _CLUSTER and is_simulated(name) else hidden

    def _digest(self, name: str) -> str:
        return hmac.digest(self._key, name.encode(errors="surrogatepass"), "sha256").hex()

    def _maybe(self, kind: str, name: str | None) -> str | None:
        return None if name is None else self.hide(kind, name)

    def _run_line(self, line: RunLine) -> RunLine:
        run, started = self.hide("run", line.run), line.run_id.removeprefix(f"{line.run}@")
        prefixed = started != line.run_id
        return msgspec.structs.replace(
            line,
            run=run,
            run_id=f"{run}@{started}" if prefixed else self.hide("run", line.run_id),
            event=msgspec.Raw(redact_event(bytes(line.event), self)),
        )

    def _poll_line(self, poll: PollLine) -> PollLine:
        names = tuple(
            (number, self.hide("topic", topic), partition, self._maybe("id", topic_id))
            for number, topic, partition, topic_id in poll.names
        )
        return msgspec.structs.replace(
            poll,
            names=names,
            brokers=_each(poll.brokers, self._broker),
            log_dirs=_each(poll.log_dirs, lambda dirs: tuple(map(self._log_dir, dirs))),
            topic_configs={
                self.hide("topic", topic): None if config is None else self._config(config)
                for topic, config in poll.topic_configs.items()
            },
            census=None if poll.census is None else self._census(poll.census),
            failures=None if poll.failures is None else tuple(map(self._failure, poll.failures)),
        )

    def _broker(self, broker: Broker) -> Broker:
        host, rack = self.hide("host", broker.host), self._maybe("rack", broker.rack)
        return msgspec.structs.replace(broker, host=host, rack=rack)

    def _log_dir(self, log_dir: LogDir) -> LogDir:
        error = None if log_dir.error is None else self.text(log_dir.error)
        return msgspec.structs.replace(log_dir, path=self.hide("path", log_dir.path), error=error)

    def _config(self, config: TopicConfig) -> TopicConfig:
        return msgspec.structs.replace(
            config,
            leader_throttled_replicas=self.text(config.leader_throttled_replicas),
            follower_throttled_replicas=self.text(config.follower_throttled_replicas),
        )

    def _census(self, census: CensusLine) -> CensusLine:
        unhealthy = tuple((self.hide("topic", topic), n) for topic, n in census.unhealthy)
        return msgspec.structs.replace(census, unhealthy=unhealthy)

    def _failure(self, failure: Failure) -> Failure:
        topic = self._maybe("topic", failure.topic)
        return msgspec.structs.replace(failure, topic=topic, answer=self.text(failure.answer))


def _each(of: Mapping[int, Any], hidden: Callable[[Any], Any]) -> dict[int, Any]:
    return {key: None if value is None else hidden(value) for key, value in of.items()}
