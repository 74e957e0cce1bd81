"""Read the captions of a scenario, in the order in which they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from ktui.captions import Caption, StoryMoment
from ktui.cluster.text import clean
from ktui.simulated.scenario.file import CaptionPart, FieldPlace

LONGEST = 140
"""The most characters of a caption: it then fits two lines of 80 columns."""


def read_captions(place: FieldPlace, values: Sequence[dict[str, Any]]) -> tuple[Caption, ...]:
    """Read the section `captions` of a file.

    Raises:
        FileProblem: a caption is wrong, or its time is before that of an earlier one; with the
            line.
    """
    captions: list[Caption] = []
    last_s = -math.inf
    for index, value in enumerate(values):
        caption = _caption(place.at(index), value)
        if caption.at_s is not None:
            if caption.at_s <= last_s:
                raise place.at(index, "at").problem(
                    "expected a time after that of the caption before; captions stand in order"
                )
            last_s = caption.at_s
        captions.append(caption)
    return tuple(captions)


def _caption(place: FieldPlace, value: dict[str, Any]) -> Caption:
    part = place.convert(value, CaptionPart)
    if (part.at is None) is (part.when is None):
        both = "" if part.at is None else "; both are set"
        raise place.problem(f"expected either 'at', a time, or 'when', a moment{both}")
    at_s = None if part.at is None else float(part.at)
    return Caption(say=_say(place.at("say"), part.say), at_s=at_s, when=_moment(place, part))


def _say(place: FieldPlace, text: str) -> str:
    said = clean(" ".join(text.split()))
    if not said:
        raise place.problem("expected a sentence that says what happens now")
    if len(said) > LONGEST:
        raise place.problem(
            f"expected at most {LONGEST} characters, got {len(said)}; make two captions of it"
        )
    if said.count("`") % 2:
        raise place.problem("expected each key between two backticks, as in `enter`")
    return said


def _moment(place: FieldPlace, part: CaptionPart) -> StoryMoment | None:
    if part.when is None:
        return None
    known = [each.value for each in StoryMoment]
    if part.when in known:
        return StoryMoment(part.when)
    near = get_close_matches(part.when, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    raise place.at("when").problem(f"there is no moment {clean(part.when)!r}; {hint}")
