"""`ktui demo` lists its scenarios, and explains what it cannot play."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ktui.cli.watch.demo import Playing, UnhurriedClock, command
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.scenario.library import load_scenario, shipped_names, shipped_path
from ktui.tui.app.simulated import PlayNext
from support.cli.call_ktui import Done, call_ktui


def demo(*arguments: str, **environment: str) -> Done:
    return call_ktui("demo", *arguments, **environment)


def test_the_list_names_every_scenario_with_what_happens() -> None:
    done = demo("--list")

    assert done.returncode == 0
    for name in shipped_names():
        assert name in done.stdout
        assert load_scenario(shipped_path(name)).title in done.stdout


def test_help_of_the_verb_is_printed() -> None:
    done = demo("--help")

    assert done.returncode == 0
    assert "SCENARIO is the name of a scenario that comes with ktui" in done.stdout


def test_an_unknown_scenario_lists_the_known_ones() -> None:
    done = demo("drain")

    assert done.returncode == 2
    assert "there is no scenario 'drain'. Choose one of drain-a-broker, " in done.stderr


def test_a_scenario_with_a_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: Mine\nfaults:\n  - {at: 5s, kill: 9}\n", encoding="utf-8")
    done = demo(str(path))

    assert done.returncode == 2
    assert (
        done.stderr
        == f"ktui: {path}:3: faults.0.kill: there is no broker 9; known brokers: 1, 2, 3\n"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = demo(str(tmp_path / "mine.yaml"))

    assert done.returncode == 2
    assert f"{tmp_path / 'mine.yaml'}: cannot be read" in done.stderr


@pytest.mark.parametrize("speed", ["0", "-1", "101", "nan", "inf", "fast"])
def test_an_invalid_speed_is_refused(speed: str) -> None:
    done = demo("--speed", speed)

    assert done.returncode == 2
    assert "--speed" in done.stderr


def test_ktui_demo_without_a_terminal_is_refused() -> None:
    done = demo()

    assert done.returncode == 2
    assert "needs a terminal" in done.stderr
    assert "ktui list" not in done.stderr


def test_an_empty_scenario_name_is_refused() -> None:
    done = demo("")

    assert done.returncode == 2
    assert "no scenario was named. Choose one of drain-a-broker, " in done.stderr


def test_ktui_demo_fails_on_a_broken_config_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("thme: dark\n", encoding="utf-8")
    done = demo(KTUI_CONFIG_DIR=str(tmp_path))

    assert done.returncode == 2


def test_ktui_demo_loads_no_kafka_client() -> None:
    code = "import sys, ktui.cli.watch.demo; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "textual" in done.stdout.split()
    assert not {"kafka", "confluent_kafka", "pyspark"} & set(done.stdout.split())


Plays = list[tuple[Playing, float]]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plays]:
    """Return a function that plays a demo, whose views end with these keys, one after the other."""

    def play(*arguments: str, keys: Sequence[PlayNext], at: float = 5.0) -> Plays:
        plays: Plays = []
        ends = [*keys, None]

        async def play_once(
            playing: Playing, speed: float
        ) -> tuple[PlayNext | None, float, str | None]:
            plays.append((playing, speed))
            return ends[len(plays) - 1], at, "chosen"

        monkeypatch.setattr("ktui.cli.watch.demo._play", play_once)
        monkeypatch.setattr("ktui.cli.watch.demo.need_terminal", lambda _instead: None)
        command.main(list(arguments), standalone_mode=False)
        return plays

    return play


def test_a_chosen_theme_and_speed_are_kept_when_a_story_is_played_again(
    played: Callable[..., Plays],
) -> None:
    plays = played("--theme", "first", keys=[PlayNext.AGAIN], at=20.0)

    assert [playing.theme for playing, _ in plays] == ["first", "chosen"]
    assert [speed for _, speed in plays] == [5.0, 20.0]


def test_the_next_story_and_the_one_before_are_those_of_the_list(
    played: Callable[..., Plays],
) -> None:
    first, second, *_, last = shipped_names()

    plays = played(keys=[PlayNext.NEXT, PlayNext.PREVIOUS, PlayNext.PREVIOUS, PlayNext.NEXT])

    assert [playing.name for playing, _ in plays] == [first, second, first, last, first]
    assert plays[1][1] == load_scenario(shipped_path(second)).speed


def test_a_story_of_ones_own_stands_before_the_shipped_ones(
    played: Callable[..., Plays], tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: Mine\n", encoding="utf-8")

    plays = played(str(path), "--speed", "7", keys=[PlayNext.NEXT, PlayNext.PREVIOUS])

    assert [playing.name for playing, _ in plays] == ["mine", shipped_names()[0], "mine"]
    assert [speed for _, speed in plays] == [7.0, 7.0, 7.0]


async def test_an_engine_wakes_at_most_ten_times_a_second_however_fast_time_runs() -> None:
    real = VirtualClock()
    sleeper = asyncio.create_task(UnhurriedClock(ScaledClock(100.0, real=real)).sleep(0.2))
    await real.advance(0.09)
    assert not sleeper.done()
    await real.advance(0.02)
    assert sleeper.done()


def test_a_folder_for_pictures_that_is_missing_is_refused(tmp_path: Path) -> None:
    done = demo("--pictures", str(tmp_path / "gone"))

    assert done.returncode == 2
    assert "--pictures" in done.stderr
    assert "does not exist" in done.stderr
