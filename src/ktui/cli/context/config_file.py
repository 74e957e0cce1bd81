"""Read the user's config.yaml, and check what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ktui.cli.context.config import Config, Context, PipelineConfig, RecordingsConfig
from ktui.execution.host.operator_command import CommandProblem, split_command
from ktui.inputfile import unknown_key
from ktui.pacing.limits import LimitsProblem, parse_limits
from ktui.planning.throttle_rates import ThrottleProblem, parse_throttle_rates
from ktui.quantities import parse_quantity
from ktui.yamlfile import YamlFile, read_yaml

_KEYS = ["contexts", "theme", "bell", "keys", "recordings", "pipeline"]


def read(path: Path) -> Config:
    """Read a config file."""
    file = read_yaml(path)
    data = file.data or {}
    if not isinstance(data, dict):
        raise file.problem((), "expected keys such as 'contexts:'")
    for key in data.keys() - set(_KEYS):
        raise file.problem((key,), unknown_key(str(key), _KEYS))
    theme = file.convert(("theme",), data.get("theme"), str | None)  # type: ignore[arg-type]  # msgspec takes unions
    bell = file.convert(("bell",), data.get("bell", True), bool)
    keys = _keys(file, data.get("keys") or {})
    recordings = _recordings(file, data.get("recordings") or {})
    contexts = _contexts(file, data.get("contexts") or {})
    pipeline = file.convert(("pipeline",), data.get("pipeline") or {}, PipelineConfig)
    return Config(path, contexts, theme, bell, keys, recordings, pipeline, file)


def _keys(file: YamlFile, data: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(data, dict):
        raise file.problem(("keys",), "keys: expected a mapping of actions to keys")
    keys: dict[str, tuple[str, ...]] = {}
    for action, value in data.items():
        given = value if isinstance(value, list) else [value]
        names = [str(each) if type(each) is int else each for each in given]
        if not names or not all(isinstance(each, str) and each.strip() for each in names):
            hint = 'expected a key, or a list of keys, such as "T" or [ctrl+t, f5]'
            raise file.problem(("keys", str(action)), f"keys.{action}: {hint}")
        keys[str(action)] = tuple(names)
    return keys


def _recordings(file: YamlFile, data: object) -> RecordingsConfig:
    found = file.convert(("recordings",), data, RecordingsConfig, hook=parse_quantity)
    lakes = tuple(
        lake if lake.startswith("~") or ":/" in lake else str(file.path.parent / lake)
        for lake in found.lakes
    )
    return msgspec.structs.replace(found, lakes=lakes)


def _contexts(file: YamlFile, data: object) -> dict[str, Context]:
    if not isinstance(data, dict):
        raise file.problem(("contexts",), "contexts: expected a mapping of names to clusters")
    for name, value in data.items():
        for key in value if isinstance(value, dict) else ():
            if "." in str(key):  # as in the names of all of Kafka's settings, and in none of ours
                hint = f"{key} is a connection setting; put it under properties:"
                raise file.problem(("contexts", str(name), key), f"contexts.{name}: {hint}")
    contexts = {
        str(name): file.convert(("contexts", str(name)), value or {}, Context)
        for name, value in data.items()
    }
    for name, context in contexts.items():
        _check_limits(file, ("contexts", name, "limits"), context.limits)
        _check(file, ("contexts", name, "throttle"), context.throttle, parse_throttle_rates)
        _check(file, ("contexts", name, "on_event"), context.on_event, split_command)
    return contexts


def _check_limits(file: YamlFile, keys: tuple[str, ...], limits: Mapping[str, Any]) -> None:
    """Check each limit alone, to name its line, and then all of them together."""
    singly = [((*keys, name), {name: value}) for name, value in limits.items()]
    for place, some in (*singly, (keys, limits)):
        try:
            parse_limits(some)
        except LimitsProblem as problem:
            raise file.problem(place, f"{'.'.join(keys)}: {problem}") from None


def _check(
    file: YamlFile, keys: tuple[str, ...], value: str | int | None, read: Callable[[str], object]
) -> None:
    try:
        read("none" if value is None else str(value))
    except (CommandProblem, ThrottleProblem) as problem:
        raise file.problem(keys, f"{'.'.join(keys)}: {problem}") from None
