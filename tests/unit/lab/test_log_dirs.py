"""A log dir of a lab fails, and is put in order again with its data."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.lab import layout
from ktui.lab.layout import Lab
from support.kafka.lab_layout import written_lab


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(ktui, ["lab", *map(str, words)])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of broker 1, which has two log dirs with a file in each."""
    lab = written_lab(tmp_path)
    lab = Lab(tmp_path, msgspec.structs.replace(lab.layout, ready=True, log_dirs=2))
    layout.save(lab)
    for path in lab.log_dirs(lab.node(1)):
        path.mkdir(parents=True)
        (path / "messages").touch()
    return lab.home(lab.node(1))


@pytest.mark.parametrize(("words", "name"), [((), "data-2"), (("--log-dir", "1"), "data")])
def test_a_log_dir_fails_and_comes_back_with_its_data(
    home: Path, words: tuple[str, ...], name: str
) -> None:
    where = ("--dir", home.parent)

    failed = run("fail-dir", "1", *words, *where)
    assert failed.stdout == f"{home / name} has failed. broker-1 notices within seconds\n"
    assert (home / name).is_file()

    mended = run("mend-dir", "1", *where)
    assert mended.stdout.startswith(f"{home / name} in order. ")
    assert [path.name for path in (home / name).iterdir()] == ["messages"]


def test_what_cannot_fail_or_be_mended_is_refused(home: Path) -> None:
    where = ("--dir", home.parent)

    assert run("mend-dir", "1", *where).stderr == "ktui: no log dir of broker-1 has failed\n"
    unknown = run("fail-dir", "1", "--log-dir", "3", *where)
    assert unknown.exit_code == 2
    assert unknown.stderr == "ktui: --log-dir 3. broker-1 has the log dirs 1 to 2.\n"
    run("fail-dir", "1", *where)
    again = run("fail-dir", "1", *where).stderr
    assert again.startswith(f"ktui: {home / 'data-2'} has failed already. Mend it with: ktui lab ")
