from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from ktui.captions import StoryMoment
from ktui.cli.watch.demo import SimulatedEngines
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import RATES, REPLICAS
from ktui.cluster.text import is_simulated
from ktui.recording.reading import PlayedPoll, find_sessions
from ktui.recording.segments import RunLine
from ktui.simulated.scenario.library import DEFAULT, shipped_path
from ktui.tui.app.demo import PlayNext
from ktui.tui.app.simulated import poll_interval_s
from ktui.tui.screens.help import HelpScreen
from ktui.tui.story import StoryScreen
from support.recordings.recordings import happenings
from support.views.screens import resize
from support.views.simulated_demos import CAPTIONED, PACED, STORY, Demo, a_demo
from support.views.terminal import Terminal


def shown(demo: Demo) -> str:
    return "" if demo.app.notification is None else demo.app.notification.words


async def test_the_demo_shows_its_plan_under_the_throttle_until_it_is_done() -> None:
    async with a_demo(size=(80, 24)) as demo:
        # the header says that it is simulated, and how fast time runs, on every screen
        await demo.until(lambda: "orders-0" in demo.text)
        assert "SIMULATED x10" in demo.text.split("\n")[0]
        await resize(demo.pilot, (120, 30))
        assert "SIMULATED x10" in demo.text.split("\n")[0]
        await demo.press("b")
        await demo.until(lambda: "brokers" in demo.text.split("\n")[1])
        assert "SIMULATED x10" in demo.text.split("\n")[0]
        await demo.press("escape")

        await demo.until(lambda: "moving" in demo.text and "10 MB/s" in demo.text)
        await demo.until(lambda: "3 done" in demo.text)
        assert "nothing is moving" in demo.text
        # when all has ended it says how to go on, also once its card is closed
        await demo.until(lambda: "The story is over." in demo.text)
        await demo.press("escape")
        await demo.until(lambda: "Nothing is being reassigned." in demo.text)
        assert "This cluster is simulated: A small story." in demo.text
        assert "Nothing moves any more. 3 partitions moved." in demo.text
        assert "play it again" in demo.text
        assert ".  the next story" in demo.text


async def test_moves_are_seen_in_the_first_second_with_bars_that_differ() -> None:
    story = shipped_path("drain-a-broker").read_text(encoding="utf-8")
    async with a_demo(story, size=(80, 24)) as demo:
        await demo.until(lambda: "in flight" in demo.text or "step 1/2" in demo.text)
        assert demo.real.monotonic() <= 1.0
        moving = [line for line in demo.text.split("\n") if "step 1/2" in line]
        assert len(moving) >= 4
        assert sum(bool(re.search("[▁▂▃▄▅▆▇]{6}", line)) for line in moving) >= 3
        assert len({*re.findall(r"(\d+) MB/s +\d", demo.text)}) >= 3  # rates differ
        # captions have the time of the story, which has gone on before
        assert "Broker 3 is to leave the cluster." in demo.text


async def test_a_plan_with_limits_is_a_run_whose_limits_and_throttle_can_be_changed() -> None:
    async with a_demo(PACED) as demo:
        await demo.until(lambda: "run story" in demo.text and "step 1/2" in demo.text)
        assert "R 1 per partition  P 1 partition" in demo.text
        assert "1 copying  2 queued" in demo.text
        assert demo.text.count("queued (") == 2
        await demo.press("p", "y")
        await demo.until(lambda: "PAUSED" in demo.text)
        await demo.press("p", "y")
        await demo.until(lambda: "RUNNING" in demo.text)

        await demo.press("l", "down", "3", "enter")
        await demo.until(lambda: "in force: they bind from decision 2 on" in demo.text)
        await demo.press("escape")
        await demo.until(lambda: "queued" not in demo.text and "P 3" in demo.text)

        assert "throttle 10 MB/s" in demo.text
        await demo.press("t")
        assert "in force: 10 MB/s into each broker" in demo.text
        await demo.press(*"90MB", "enter")
        await demo.until(lambda: "90 MB/s into each broker, at once" in demo.text)
        await demo.press("escape")
        await demo.until(lambda: "ENDED" in demo.text)
        assert "done 3/3" in demo.text
        assert await throttles_of(demo) == {}  # it is put back at the end


async def test_a_recorded_story_has_each_step_before_the_poll_that_shows_it(
    tmp_path: Path,
) -> None:
    async with a_demo(PACED, record=tmp_path / "recorded") as demo:
        await demo.until(lambda: "REC" in demo.text.split("\n")[0])
        await demo.until(lambda: "ENDED" in demo.text)

    begun_ms = dict[TopicPartition, int]()
    shown = set[TopicPartition]()
    for item in happenings(tmp_path / "recorded"):
        if isinstance(item, RunLine):
            event = msgspec.json.decode(item.event)
            if event["event"] == "step" and event["adding"]:
                begun_ms[TopicPartition(event["topic"], event["partition"])] = item.ms
        if isinstance(item, PlayedPoll):
            adding = {tp for tp, seen in item.observation.partitions.items() if seen.adding}
            assert all(begun_ms[tp] <= item.line.ms for tp in adding)
            shown |= adding
    assert len(shown) == 3


async def test_a_story_that_is_recorded_again_counts_as_another_cluster(tmp_path: Path) -> None:
    for _ in range(2):
        async with a_demo(record=tmp_path / "recorded") as demo:
            await demo.until(lambda: "REC" in demo.text.split("\n")[0])

    ids = {session.head.cluster_id for session in find_sessions(tmp_path / "recorded")}
    assert len(ids) == 2
    assert all(is_simulated(cluster_id) for cluster_id in ids)


async def test_one_key_raises_the_throttle_in_the_story_of_a_throttle_too_low() -> None:
    story = shipped_path("throttle-too-low").read_text(encoding="utf-8")
    async with a_demo(story) as demo:
        await demo.until(lambda: "THROTTLE TOO LOW (t): 3.0 MB/s" in demo.text)
        await demo.press("t", *"60MB", "enter", "escape")
        await demo.until(lambda: "ENDED" in demo.text)
        assert "done 14/14" in demo.text
        assert await throttles_of(demo) == {}


async def throttles_of(demo: Demo) -> dict[str, object]:
    """Return the throttles that are set on brokers and topics."""
    assert isinstance(demo.app.run_catalog.engines, SimulatedEngines)
    reader = demo.app.run_catalog.engines._cluster.reader()
    resources = [
        *(ConfigResource(ConfigScope.BROKER, str(broker)) for broker in range(1, 6)),
        *(ConfigResource(ConfigScope.TOPIC, topic) for topic in ("orders", "clicks", "audit")),
    ]
    answer = await reader.settings(resources)
    return {
        f"{resource.scope} {resource.name}": shown
        for resource, shown in answer.settings.items()
        if shown.keys() & {*RATES, *REPLICAS}
    }


async def test_the_story_is_shown_at_the_start_and_again_on_a_key() -> None:
    async with a_demo(STORY.replace("start: 5s", "start: 25s")) as demo:
        await demo.until(lambda: "Broker 3 is drained." in demo.text)
        assert not shown(demo)
        await demo.until(lambda: "orders-0" in demo.text and "A small story" in demo.text)
        assert shown(demo)
        await demo.press("i")
        await demo.until(lambda: "Broker 3 is drained." in demo.text)
        assert not shown(demo)
        await demo.press("i")
        await demo.until(lambda: "Broker 3 is drained." not in demo.text)


async def test_the_help_lists_the_demo_keys_with_all_others() -> None:
    async with a_demo() as demo:
        sections = demo.app.help_sections()
        everywhere = {key.text: words for key, words in sections[0].rows}
        assert everywhere["q"] == "Close this view, and end the simulated cluster"
        words = {words for section in sections for _, words in section.rows}
        assert {"Show what happens here", "Play the story from the start"} <= words
        assert "Show the brokers: traffic, disks, throttles" in words
        # nothing lies over the help
        await demo.until(lambda: "i shows the story" in demo.text)
        await demo.press("question_mark")
        await demo.until(lambda: isinstance(demo.app.screen, HelpScreen))
        assert not shown(demo)
        await demo.press("escape")
        await demo.until(lambda: demo.text.split("\n")[-1].split().count("brokers") == 1)


async def test_a_demo_can_be_played_again() -> None:
    async with a_demo() as demo:
        await demo.press("R")
        await demo.until(lambda: demo.app._exit)
        assert demo.app.plays_next is PlayNext.AGAIN


async def test_the_keys_of_the_next_story_and_the_one_before_end_this_one() -> None:
    for key, then in (("full_stop", PlayNext.NEXT), ("comma", PlayNext.PREVIOUS)):
        async with a_demo() as demo:
            await demo.press(key)
            await demo.until(lambda demo=demo: demo.app._exit)  # type: ignore[misc]  # of this turn
            assert demo.app.plays_next is then


async def test_time_can_be_stopped_while_every_screen_still_opens() -> None:
    async with a_demo(PACED) as demo:
        await demo.until(lambda: "step 1/2" in demo.text)
        await demo.press("0")
        assert "SIMULATED x10 TIME STOPPED" in demo.text
        stands = demo.clock.monotonic()
        await demo.real.advance(30.0)
        await demo.press("b")
        await demo.until(lambda: "counted at" in demo.text)
        assert "TIME STOPPED" in demo.text
        await demo.press("escape", "enter", "escape")
        assert demo.clock.monotonic() == stands

        # what is asked of the run meanwhile is done once time goes on
        await demo.press("t", *"90MB", "enter", "escape")
        await demo.real.advance(5.0)
        assert "throttle 10 MB/s" in demo.text
        await demo.press("0")
        assert "TIME STOPPED" not in demo.text
        await demo.until(lambda: "throttle 90 MB/s" in demo.text)


async def test_the_header_has_the_speed_that_keys_change_and_polls_follow_it() -> None:
    async with a_demo(PACED) as demo:
        await demo.until(lambda: "step 1/2" in demo.text)
        for keys, speed, interval_s in ((("minus",) * 3, 1.0, 1.0), (("plus",) * 9, 100.0, 10.0)):
            await demo.press(*keys)
            assert f"SIMULATED x{speed:g} " in demo.text
            assert f"poll {interval_s:.1f} s" in demo.text
            before = demo.clock.monotonic()
            await demo.real.advance(1.0)
            await demo.pilot.pause()
            assert demo.clock.monotonic() == before + speed
            assert demo.app.progress.last is not None
            assert demo.clock.monotonic() - demo.app.progress.last.monotonic_s <= interval_s
        await demo.until(lambda: "ENDED" in demo.text)
        assert "done 3/3" in demo.text


async def test_captions_stand_above_the_keys_of_every_screen() -> None:
    async with a_demo(CAPTIONED, size=(80, 24)) as demo:
        first = "» Broker 3 is drained. Press b for [bold]the brokers[/]."
        await demo.until(lambda: demo.text.split("\n")[-2].strip() == first)
        await demo.press("b")
        await demo.until(lambda: demo.text.split("\n")[-2].strip() == first)
        await demo.until(lambda: demo.text.split("\n")[-2].strip() == "» The first one is done.")
        await demo.press("escape")
        assert "» The first one is done." in demo.text


def text_of(picture: Path) -> str:
    return picture.read_text(encoding="utf-8")


async def test_a_key_writes_a_picture_of_the_screen_also_of_a_dialog(tmp_path: Path) -> None:
    async with a_demo(folder=tmp_path) as demo:
        await demo.until(lambda: "orders-0" in demo.text)
        await demo.press("i")
        await demo.press("ctrl+s")
        picture = Path(shown(demo).removeprefix("Wrote the picture "))
        assert picture.parent == tmp_path
        assert "Broker&#160;3&#160;is&#160;drained." in text_of(picture)

        demo.app._pictures = tmp_path / "gone"
        await demo.press("ctrl+s")
        assert "No picture was written into" in shown(demo)
        assert "there is no folder" in shown(demo)


async def test_leaving_a_demo_reports_that_the_simulated_cluster_has_ended() -> None:
    async with a_demo() as demo:
        await demo.press("q")
        await demo.until(lambda: demo.app._exit)
        assert demo.last_words.startswith("ktui: the simulated cluster has ended with its view.")
        assert demo.app.plays_next is None


async def test_partitions_that_the_cluster_refuses_are_reported() -> None:
    story = f"{STORY}faults: [{{at: 1s, delete-topic: orders}}]\n"
    async with a_demo(story) as demo:
        await demo.until(lambda: "Refused parts" in demo.text)
        assert "Kafka refused it" in demo.text
        demo.app.clear_notifications()
        await demo.press("i")
        await demo.until(lambda: "Refused parts of the plan" in demo.text)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in demo.text


async def test_an_unreachable_broker_is_reported_in_plain_words() -> None:
    story = f"{STORY.replace('start: 5s', 'start: 20s')}faults: [{{at: 1s, kill: 4}}]\n"
    async with a_demo(story) as demo:
        await demo.until(lambda: "Refused parts" in demo.text)
        await demo.press("i")
        words = "broker 4: could not be reached, so nothing was sent to it"
        await demo.until(lambda: words in demo.text)


@pytest.mark.parametrize(
    ("speed", "interval_s"), [(0.1, 0.1), (1.0, 1.0), (10.0, 10.0), (100.0, 10.0)]
)
def test_the_demo_polls_often_enough_to_miss_no_move(speed: float, interval_s: float) -> None:
    assert poll_interval_s(speed) == interval_s


async def test_a_story_without_a_plan_is_shown_too() -> None:
    async with a_demo(STORY[: STORY.index("plan")]) as demo:
        await demo.until(lambda: "Nothing is being reassigned." in demo.text)


def test_a_demo_runs_in_a_terminal_is_played_again_and_quit() -> None:
    command = [sys.executable, "-m", "ktui", "demo", "--speed", "20"]
    with Terminal(command, env={"TERM": "xterm", "COLORTERM": ""}) as terminal:
        terminal.wait_for("SIMULATED x20")
        terminal.wait_for("orders-0")
        screen = terminal.wait_for(
            lambda text: re.search("done [1-9]", text), why="some partitions done"
        )
        assert "MB/s" in screen
        terminal.send("R")
        terminal.wait_for(lambda text: "done 0/22" in text, why="the start")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        assert terminal.attributes == terminal.attributes_before
        assert b"the simulated cluster has ended with its view" in terminal.output
        # a terminal of 16 colours gets the theme of these 16
        assert b"\x1b[38;2" not in terminal.output
        assert b"93" in terminal.output


SCRIPT = Path(__file__).parents[3] / "scripts" / "draw_demo.py"
SHOWN = {
    "demo": ("SIMULATED", "adding", "60 MB/s", "replicas", "ENDED", "done"),
    "run": ("batch", "throttle", "60 MB/s", "step 1/2", "5 of 5 under way (P)"),
    "partition": ("steps of run", "in flight", "leader", "lag"),
    "watch": ("SIMULATED", "STALLED", "broker 5 is down", "done"),
    "rehearsal": ("SIMULATED x10", "ROLLING BACK", "broker 4 down", "break it"),
    "cancel": ("roll back", "what is sent", "replicas after", "cancel gate"),
}
"""Words of each picture."""


def words_of(picture: Path) -> str:
    text = "".join(ET.parse(picture).getroot().itertext())  # noqa: S314 - drawn by ourselves
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_pictures_are_drawn_from_the_demo_and_stay_small(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True)

    shown = {picture.stem: words_of(picture) for picture in tmp_path.iterdir()}
    assert shown.keys() == SHOWN.keys()
    for name, words in SHOWN.items():
        assert [each for each in words if each not in shown[name]] == []
    assert all(picture.stat().st_size < 300_000 for picture in tmp_path.iterdir())


TOUR = f"""{PACED}
tour:
  - {{say: "A run moves three partitions.", hold: 4s}}
  - {{say: "`b` shows the brokers.", press: [b], hold: 4s}}
  - {{say: "`t` raises the throttle.", press: [escape, t, "9", "0", M, B, enter], hold: 4s}}
  - {{say: "That is all.", press: [escape], when: over, hold: 1s}}
"""


async def test_a_tour_says_what_is_seen_and_presses_the_keys_that_it_names() -> None:
    async with a_demo(TOUR, size=(80, 24), tour=True) as demo:
        await demo.until(lambda: "» A run moves three partitions." in demo.text)
        await demo.until(lambda: "» b shows the brokers." in demo.text)
        await demo.until(lambda: "brokers" in demo.text.split("\n")[1])
        await demo.until(lambda: "throttle 90 MB/s" in demo.text)
        await demo.until(lambda: "» That is all." in demo.text)
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
        assert "3 partitions moved" in demo.text


async def test_any_key_takes_over_and_one_key_goes_on_with_the_tour() -> None:
    async with a_demo(TOUR, tour=True) as demo:
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


async def test_a_tour_that_is_gone_on_with_after_the_end_presses_no_key_of_the_moves() -> None:
    async with a_demo(TOUR, tour=True) as demo:
        await demo.until(lambda: "» A run moves three partitions." in demo.text)
        await demo.press("e")
        await demo.until(lambda: StoryMoment.OVER in demo.app._moments.seen)
        await demo.press("0", "ctrl+g")  # time goes on with the tour
        await demo.until(lambda: "» That is all." in demo.text)
        assert "TIME STOPPED" not in demo.text
        assert "throttle of run" not in demo.text


async def test_the_shipped_tour_ends_on_a_card_within_three_minutes() -> None:
    story = shipped_path(DEFAULT).read_text(encoding="utf-8")
    async with a_demo(story, size=(80, 24), tour=True) as demo:
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


async def test_a_key_breaks_a_broker_of_any_demo_and_lets_it_come_back() -> None:
    async with a_demo() as demo:
        await demo.until(lambda: "moving" in demo.text and "MB/s" in demo.text)
        await broken(demo, "k")
        await demo.until(lambda: re.search(r"broker \d down", demo.text) is not None)
        await broken(demo, "t")  # the broker of the row that is down
        await demo.until(lambda: "down" not in demo.text.split("\n")[1])

        await demo.press("colon", *"event kill 9", "enter")
        await demo.until(lambda: "there is no broker '9'" in demo.text)


async def test_a_card_at_the_end_says_what_came_of_it_and_what_to_do_next() -> None:
    async with a_demo(STORY, size=(80, 24)) as demo:
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


async def test_what_is_created_again_under_its_name_counts_as_deleted() -> None:
    story = f"{STORY}faults: [{{at: 30s, recreate-topic: orders}}]\n"
    async with a_demo(story) as demo:
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
        assert "0 partitions moved, 3 deleted" in demo.text


async def test_no_card_opens_over_what_somebody_is_doing() -> None:
    async with a_demo(STORY) as demo:
        await demo.press("e")
        await demo.until(lambda: demo.app._card_due)
        for _ in range(5):
            await demo.real.advance(1.0)
            await demo.pilot.pause()
        assert not isinstance(demo.app.screen, StoryScreen)
        await demo.press("escape")
        await demo.until(lambda: isinstance(demo.app.screen, StoryScreen))
