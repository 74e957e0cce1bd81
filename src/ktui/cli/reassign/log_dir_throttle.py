"""The rate of moves between log dirs that `ktui reassign` has set, and puts back.

Runs have no such throttle, so it is noted in a file of the state directory, before it is sent.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ktui.cli.reassign.printed import ReassignProblem
from ktui.cluster.ports import ClusterReader, ClusterWriter, ConfigChange, ConfigOp, Verdict
from ktui.cluster.settings import LOG_DIR_RATE, broker_resource
from ktui.durable import write_whole
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.execution.regular_files import read_note
from ktui.json_text import decode_untrusted


class LogDirRate(msgspec.Struct, frozen=True):
    """A broker's rate: what we have set, and what it was before."""

    values: tuple[str, ...]
    """Ours: the last one, and the one before it, as the last may not have arrived."""
    before: str | None
    """None where none was set on the broker itself."""


_DECODER = msgspec.json.Decoder(dict[int, LogDirRate])


class LogDirThrottle:
    """The rates of one cluster, noted in a file of the state directory."""

    def __init__(self, state: StateDir, cluster_id: str) -> None:
        self._state = state
        self._path = state.cluster_note("log-dir-rates", cluster_id)

    @property
    def set_on(self) -> dict[int, LogDirRate]:
        """The brokers whose rates are ours.

        Raises:
            RunProblem: the file cannot be read.
        """
        try:
            return decode_untrusted(_DECODER, read_note(self._path))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise RunProblem(f"{self._path}: cannot be read: {error.strerror}") from None
        except msgspec.DecodeError:
            raise RunProblem(
                f"{self._path}: is damaged. Remove it, and the rates that it should name: "
                "ktui doctor --clear-throttles"
            ) from None

    async def set(
        self, reader: ClusterReader, writer: ClusterWriter, brokers: Collection[int], rate: int
    ) -> None:
        """Set the rate of brokers, and remember their own one.

        Raises:
            ReassignProblem: a broker has refused it, or does not say what it has.
            RunProblem: the file cannot be written; nothing was sent.
            ClusterError: nothing was sent.
        """
        resources = {broker: broker_resource(broker) for broker in brokers}
        now = await reader.settings(resources.values(), [LOG_DIR_RATE])
        for resource, why in now.failures.items():
            raise ReassignProblem(f"{resource.scope} {resource.name}: {why}")
        ours = self.set_on
        for broker, resource in resources.items():
            setting = now.settings[resource].get(LOG_DIR_RATE)
            own = None if setting is None else setting.own
            mine = ours.get(broker)
            if mine is None or own is None or own not in mine.values:
                ours[broker] = LogDirRate((str(rate),), own)
            else:
                ours[broker] = LogDirRate((own, str(rate)), mine.before)
        self._write(ours)
        await _alter(
            writer,
            [ConfigChange(r, LOG_DIR_RATE, ConfigOp.SET, str(rate)) for r in resources.values()],
        )

    async def put_back(self, reader: ClusterReader, writer: ClusterWriter) -> list[int]:
        """Put back the rates that are still ours; return their brokers.

        Raises:
            ReassignProblem: a broker has refused it; its rate stays noted.
            RunProblem: the file cannot be read or written.
            ClusterError: nothing was sent.
        """
        ours = self.set_on
        resources = {broker: broker_resource(broker) for broker in ours}
        now = await reader.settings(resources.values(), [LOG_DIR_RATE]) if ours else None
        if now is None:
            return []
        changes, over = [], []
        for broker, rate in ours.items():
            settings = now.settings.get(resources[broker])
            if settings is None:  # it is down
                continue
            over.append(broker)
            setting = settings.get(LOG_DIR_RATE)
            if setting is not None and setting.own in rate.values:
                changes.append(_back(broker, rate))
        await _alter(writer, changes)
        self._write({broker: rate for broker, rate in ours.items() if broker not in over})
        return sorted(int(change.resource.name) for change in changes)

    def _write(self, rates: dict[int, LogDirRate]) -> None:
        self._state.check()
        self._state.make(self._path.parent)
        try:
            write_whole(self._path, msgspec.json.encode(rates))
        except OSError as error:
            raise RunProblem(f"{self._path}: cannot be written: {error.strerror}") from None


def _back(broker: int, rate: LogDirRate) -> ConfigChange:
    resource = broker_resource(broker)
    if rate.before is None:
        return ConfigChange(resource, LOG_DIR_RATE, ConfigOp.DELETE)
    return ConfigChange(resource, LOG_DIR_RATE, ConfigOp.SET, rate.before)


async def _alter(writer: ClusterWriter, changes: Collection[ConfigChange]) -> None:
    results = await writer.alter_configs([*changes]) if changes else {}
    for resource, result in results.items():
        if result.verdict is not Verdict.ACCEPTED:
            raise ReassignProblem(f"broker {resource.name}: {result.message or result.code}")
