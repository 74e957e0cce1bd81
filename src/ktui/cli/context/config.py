"""The user's config.yaml: several clusters by name."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import platformdirs

from ktui.inputfile import FileProblem
from ktui.quantities import Seconds, Size

if TYPE_CHECKING:
    from ktui.recording.stored import Retention
    from ktui.yamlfile import YamlFile


DEFAULT_POLL_INTERVAL_S = 1.0


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster of the config file."""

    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Connection settings under librdkafka's names."""
    command_config: str | None = None
    """A client properties file as Kafka's own tools take it; `properties` win over it."""
    cluster_id: str | None = None  # the id that the cluster has to have, or nothing is sent to it
    read_only: bool = False
    ownership: bool = True
    """Whether runs own the cluster for their state directory.

    Off for a cluster where the principal may not join consumer groups.
    """
    poll_interval: Annotated[float, msgspec.Meta(ge=0.1, le=3600)] = DEFAULT_POLL_INTERVAL_S
    """Seconds."""
    theme: str | None = None
    limits: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The limits of new runs unless an option sets them, by the options' names or KIP-435's."""
    throttle: str | int | None = None  # the throttle of new runs, as a value of `--throttle`
    canary: bool = False
    """Whether a canary measures the objective of new runs, unless an option names another way."""
    on_event: str | None = None
    """The command that gets the notices of new runs, as `--on-event` takes it."""


class RecordingsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long recordings in the state directory stay, as `ktui record prune` takes it."""

    older_than: Seconds | None = None
    keep: Size | None = None
    lakes: tuple[str, ...] = ()
    """The folders of the lakes, absolute; empty for that of the state directory."""
    force: bool = False

    @property
    def limits(self) -> Retention | None:
        from ktui.recording.stored import Retention  # noqa: PLC0415 - only verbs that record

        if self.older_than is None and self.keep is None:
            return None
        return Retention(self.older_than, self.keep)


class Engine(enum.StrEnum):
    """What computes the pipeline's tables."""

    SPARK = "spark"
    SAIL = "sail"


class PipelineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `ktui pipeline run` does without options."""

    engine: Engine = Engine.SPARK


class Config(msgspec.Struct, frozen=True):
    """The whole file; an absent file is an empty one."""

    path: Path
    contexts: Mapping[str, Context]
    theme: str | None = None
    bell: bool = True
    """Whether the terminal rings and notifies where a view has something to report."""
    keys: Mapping[str, tuple[str, ...]] = {}
    """The keys of actions, by the action's id; a view checks them."""
    recordings: RecordingsConfig = RecordingsConfig()
    pipeline: PipelineConfig = PipelineConfig()
    file: YamlFile | None = None  # the file as it was parsed; None where there is none

    def context(self, name: str) -> Context:
        if name in self.contexts:
            return self.contexts[name]
        if self.contexts:
            what = f"Known contexts: {', '.join(sorted(self.contexts))}"
        else:
            none = "There is no such file" if self.file is None else "The file defines no contexts"
            what = f"{none}. Name the brokers with --bootstrap-server, or write a context into it"
        raise FileProblem(self.path, None, f"no context {name!r}. {what}")

    def place(self, context: str, *keys: str) -> str:
        """Return where a setting of a context is: "FILE:LINE, context NAME"."""
        if self.file is None:
            return f"{self.path}, context {context}"
        return f"{self.path}:{self.file.line(('contexts', context, *keys))}, context {context}"


def config_dir() -> Path:
    """Return the folder of config.yaml and the user's themes; KTUI_CONFIG_DIR overrides it."""
    override = os.environ.get("KTUI_CONFIG_DIR")
    return Path(override) if override else platformdirs.user_config_path("ktui")


def load_config(path: Path | None = None) -> Config:
    """Read the config file."""
    path = path or config_dir() / "config.yaml"
    try:
        path.stat()
    except FileNotFoundError:
        return Config(path, {})
    except OSError as error:
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None
    from ktui.cli.context.config_file import read  # noqa: PLC0415 - most runs have no file to read

    return read(path)
