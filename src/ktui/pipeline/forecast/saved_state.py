"""The state of a session's replay as bytes, so that a later run of the pipeline goes on from it.

The state is values of known types alone, and each is checked as it is read.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

from ktui import __version__
from ktui.cluster.partition import TopicPartition
from ktui.pipeline.forecast.replay import ReplayState
from ktui.pipeline.forecast.session_stream import Place
from ktui.progress.timeline import Progress, Timeline

FORMAT = f"3 of ktui {__version__}"
"""Names the types of a state and what is done with them. A state of another format is not read."""


class SavedState(msgspec.Struct):
    """A session after its last line that was replayed."""

    place: Place | None = None
    """None before the first line."""
    replay: ReplayState | None = msgspec.field(default_factory=ReplayState)
    """None once a poll could not be folded: the session has no forecasts after that."""


def encode(state: SavedState) -> bytes:
    """Encode a state, without the events that only screens show."""
    replay = state.replay
    if replay is not None:
        kept = ReplayState(_without_events(replay.progress), replay.runs, replay.growths)
        state = SavedState(state.place, kept)
    return _ENCODER.encode(state)


def decode(content: bytes) -> SavedState:
    """Decode a state.

    Raises:
        msgspec.MsgspecError: the content is no state of this format.
    """
    return _DECODER.decode(content)


def _without_events(progress: Progress) -> Progress:
    timelines: Mapping[TopicPartition, Timeline] = {
        tp: msgspec.structs.replace(timeline, events=())
        for tp, timeline in progress.timelines.items()
    }
    return msgspec.structs.replace(progress, timelines=timelines, events=())


def _as_list(value: object) -> list[Any]:
    if isinstance(value, deque):
        return list(value)
    raise NotImplementedError(type(value))


def _rebuilt(kind: type, value: Any) -> object:
    """Return a collection that msgspec has no type for."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is deque:
        return deque(msgspec.convert(value, list[inside[0]]))  # type: ignore[valid-type]  # known when run
    if origin is Counter:
        return Counter(msgspec.convert(value, dict[inside[0], int]))  # type: ignore[valid-type]  # as above
    raise NotImplementedError(kind)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_as_list)
_DECODER = msgspec.msgpack.Decoder(SavedState, dec_hook=_rebuilt)
