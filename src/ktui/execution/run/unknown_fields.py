"""Find fields that this version does not know: a newer one may give them a meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec


def unknown_field(body: bytes, known: object) -> str | None:
    """Return the first unknown field of a JSON object, such as `options.rack`; None for none.

    Args:
        body: the JSON.
        known: the value decoded from that JSON.
    """
    return next(_unknown(msgspec.json.decode(body), known, ""), None)


def _unknown(raw: Any, known: object, path: str) -> Iterator[str]:
    if isinstance(known, msgspec.Struct) and isinstance(raw, Mapping):
        fields = {each.encode_name: each.name for each in msgspec.structs.fields(known)}
        tag = known.__struct_config__.tag_field
        for name, value in raw.items():
            if name in fields:
                yield from _unknown(value, getattr(known, fields[name]), f"{path}{name}.")
            elif name != tag:
                yield f"{path}{name}"
    elif isinstance(known, Mapping) and isinstance(raw, Mapping):
        for name, value in raw.items():
            yield from _unknown(value, known.get(name), f"{path}{name}.")
    elif isinstance(known, Sequence) and isinstance(raw, list):
        for number, (value, each) in enumerate(zip(raw, known, strict=False)):
            yield from _unknown(value, each, f"{path.removesuffix('.')}[{number}].")
