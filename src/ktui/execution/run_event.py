"""What every event of a run is: a record that is one JSON object, named by `event`."""

from __future__ import annotations

import msgspec


class RunEvent(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Something that happened in a run. Fields that are as by default are not written."""
