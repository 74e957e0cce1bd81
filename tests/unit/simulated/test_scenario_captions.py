"""Captions of a scenario file: what is read, and how each mistake is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.captions import Caption, StoryMoment
from ktui.inputfile import FileProblem
from ktui.simulated.scenario.library import load_scenario, shipped_names, shipped_path

ONE_LINE = 114
"""Characters of a line of 120 columns."""
START = "title: Mine\ncaptions:\n"


def load(folder: Path, captions: str) -> tuple[Caption, ...]:
    path = folder / "mine.yaml"
    path.write_text(START + captions, encoding="utf-8")
    return load_scenario(path).captions


def test_a_caption_waits_for_a_time_or_a_moment(tmp_path: Path) -> None:
    text = "  - {at: 1m30s, say: Look at `b`.}\n  - {when: stalled, say: 'It\n    hangs.'}\n"
    assert load(tmp_path, text) == (
        Caption(say="Look at `b`.", at_s=90.0),
        Caption(say="It hangs.", when=StoryMoment.STALLED),
    )


@pytest.mark.parametrize(
    ("captions", "line", "words"),
    [
        ("  - {say: x}\n", 3, "captions.0: expected either 'at', a time, or 'when', a moment"),
        (
            "  - {at: 1s, say: x}\n  - {at: 2s, when: over, say: x}\n",
            4,
            "captions.1: expected either 'at', a time, or 'when', a moment; both are set",
        ),
        (
            "  - {when: staled, say: x}\n",
            3,
            "captions.0.when: there is no moment 'staled'; did you mean 'stalled'?",
        ),
        ("  - {when: lunch, say: x}\n", 3, "expected one of moving, behind, stalled, "),
        ("  - {at: 5s}\n", 3, "missing required field `say`"),
        ("  - {at: 5s, say: ''}\n", 3, "expected a sentence that says what happens now"),
        (
            f"  - {{at: 5s, say: {'x' * 141}}}\n",
            3,
            "expected at most 140 characters, got 141; make two captions of it",
        ),
        ("  - {at: 5s, say: 'Press `b.'}\n", 3, "expected each key between two backticks"),
        (
            "  - {at: 9s, say: x}\n  - {when: over, say: x}\n  - {at: 9s, say: x}\n",
            5,
            "captions.2.at: expected a time after that of the caption before",
        ),
        ("  - {at: 5s, says: x}\n", 3, "unknown key 'says'; did you mean 'say'?"),
        ("  - {at: soon, say: x}\n", 3, "captions.0.at"),
    ],
)
def test_a_mistake_in_a_caption_is_reported_with_its_line(
    tmp_path: Path, captions: str, line: int, words: str
) -> None:
    with pytest.raises(FileProblem) as problem:
        load(tmp_path, captions)
    assert problem.value.line == line
    assert words in str(problem.value)


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_story_explains_itself_from_its_start_to_its_end(name: str) -> None:
    captions = load_scenario(shipped_path(name)).captions

    assert captions[0].at_s == 0
    assert captions[-1].when is StoryMoment.OVER
    assert len(captions) >= 5
    assert max(len(caption.say.replace("`", "")) for caption in captions) <= ONE_LINE
    assert any("`" in caption.say for caption in captions[:-1])
