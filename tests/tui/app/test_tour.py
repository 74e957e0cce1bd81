"""What a demo does by itself, what it lets happen, and the card at its end."""

from __future__ import annotations

import re
from pathlib import Path

from ktui.captions import StoryMoment
from ktui.simulated.scenario.library import DEFAULT, shipped_path
from ktui.tui.story import StoryScreen
from support.views.simulated_demos import PACED, STORY, Demo, a_demo

TOUR = f"""{PACED}
tour:
  - {{say: "A run moves three partitions.", hold: 4s}}
  - {{say: "`b` shows the brokers.", press: [b], hold: 4s}}
  - {{say: "`t` raises the throttle.", press: [escape, t, "9", "0", M, B, enter], hold: 4s}}
  - {{say: "That is all.", press: [escape], when: over, hold: 1s}}
"""


async def test_a_tour_says_what_is_seen_and_presses_the_keys_that_it_names(tmp_path: Path) -> None:
    async with a_demo(tmp_path, TOUR, size=(80, 24), tour=True) as demo:
        await demo.until(lambda: "» A run moves three partitions." in demo.text)
        await demo.until(lambda: "» b shows the brokers." in demo.text)
        await demo.until(lambda: "brokers" in demo.text.split("\n")[1])
        await demo.until(lambda: "throttle 90 MB/s" in demo.text)
        await demo.until(lambda: "» That is all." in demo.text)
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
        assert "3 partitions moved" in demo.text


async def test_any_key_takes_over_and_one_key_goes_on_with_the_tour(tmp_path: Path) -> None:
    async with a_demo(tmp_path, TOUR, tour=True) as demo:
        await demo.until(lambda: "» A run moves three partitions." in demo.text)
        await demo.press("e")
        await demo.until(lambda: "You have the keys. ^g goes on with the tour." in demo.text)
        for _ in range(9):  # nothing is pressed any more
            await demo.real.advance(1.0)
            await demo.pilot.pause()
        assert "events" in demo.text.split("\n")[0]
        assert "throttle 90 MB/s" not in demo.text

        await demo.press("ctrl+g")  # from whichever screen; the step is shown from its start
        await demo.until(lambda: "» A run moves three partitions." in demo.text)
        await demo.until(lambda: "throttle 90 MB/s" in demo.text)


async def test_a_tour_that_is_gone_on_with_after_the_end_presses_no_key_of_the_moves(
    tmp_path: Path,
) -> None:
    async with a_demo(tmp_path, TOUR, tour=True) as demo:
        await demo.until(lambda: "» A run moves three partitions." in demo.text)
        await demo.press("e")
        await demo.until(lambda: StoryMoment.OVER in demo.app._moments.seen)
        await demo.press("0", "ctrl+g")  # time goes on with the tour
        await demo.until(lambda: "» That is all." in demo.text)
        assert "TIME STOPPED" not in demo.text
        assert "throttle of run" not in demo.text


async def test_the_shipped_tour_ends_on_a_card_within_three_minutes(tmp_path: Path) -> None:
    story = shipped_path(DEFAULT).read_text(encoding="utf-8")
    async with a_demo(tmp_path, story, size=(80, 24), tour=True) as demo:
        seen = {"down": "", "rolled back": "", "throttle 60 MB/s": "", "P 8": ""}

        def over() -> bool:
            seen.update({words: demo.text for words in seen if words in demo.text})
            return isinstance(demo.app.screen, StoryScreen)

        await demo.until(over)
        assert 120 <= demo.real.monotonic() <= 190
        assert all(seen.values())
        # what it says is what came of it, not what was planned
        assert "21 partitions moved, 1 put back" in demo.text
        assert re.search(r"ISR +\d+ partitions at once out of it, ", demo.text)
        assert re.search(r"p99 of acks=all at most \d+ ms", demo.text)


async def broken(demo: Demo, key: str) -> None:
    await demo.press("B")
    await demo.until(lambda: "break something at broker" in demo.text)
    await demo.press(key)


async def test_a_key_breaks_a_broker_of_any_demo_and_lets_it_come_back(tmp_path: Path) -> None:
    async with a_demo(tmp_path) as demo:
        await demo.until(lambda: "moving" in demo.text and "MB/s" in demo.text)
        await broken(demo, "k")
        await demo.until(lambda: re.search(r"broker \d down", demo.text) is not None)
        await broken(demo, "t")  # the broker of the row that is down
        await demo.until(lambda: "down" not in demo.text.split("\n")[1])

        await demo.press("colon", *"event kill 9", "enter")
        await demo.until(lambda: "there is no broker '9'" in demo.text)


async def test_a_card_at_the_end_says_what_came_of_it_and_what_to_do_next(tmp_path: Path) -> None:
    async with a_demo(tmp_path, STORY, size=(80, 24)) as demo:
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
        assert "3 partitions moved" in demo.text
        assert re.search(r"copied +3\.0 GiB between brokers, in \d+m", demo.text)
        assert "no replica was ever out of it" in demo.text
        assert "never below it" in demo.text
        assert "R again   . the next story" in demo.text
        await demo.press("escape")
        assert not isinstance(demo.app.screen, StoryScreen)
        await demo.press("i")
        assert "3 partitions moved" in demo.text
        await demo.press("R")
        await demo.until(lambda: demo.app._exit)


async def test_what_is_created_again_under_its_name_counts_as_deleted(tmp_path: Path) -> None:
    story = f"{STORY}faults: [{{at: 30s, recreate-topic: orders}}]\n"
    async with a_demo(tmp_path, story) as demo:
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
        assert "0 partitions moved, 3 deleted" in demo.text


async def test_no_card_opens_over_what_somebody_is_doing(tmp_path: Path) -> None:
    async with a_demo(tmp_path, STORY) as demo:
        await demo.press("e")
        await demo.until(lambda: demo.app._card_due)
        for _ in range(5):
            await demo.real.advance(1.0)
            await demo.pilot.pause()
        assert not isinstance(demo.app.screen, StoryScreen)
        await demo.press("escape")
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
