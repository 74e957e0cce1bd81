"""The state of a lab: the contents of lab.json, and the errors when it is missing."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ktui.lab import layout
from ktui.lab.layout import LabError, Security, WrongInput
from support.kafka.lab_layout import written_lab


def test_a_saved_lab_is_loaded_unchanged(tmp_path: Path) -> None:
    lab = written_lab(tmp_path, Security.SASL_SSL)
    layout.save(lab)
    assert layout.load(tmp_path) == lab


def test_lab_json_holds_passwords_and_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    layout.save(written_lab(tmp_path, Security.SASL_SSL))
    assert stat.S_IMODE((tmp_path / "lab.json").stat().st_mode) == 0o600


def test_a_folder_without_a_lab_is_reported_with_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(WrongInput) as error:
        layout.load(tmp_path)
    assert str(error.value) == (
        f"no lab in {tmp_path}. Start one with: ktui lab up --dir {tmp_path}"
    )


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1}', "[]"])
def test_a_broken_lab_json_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "lab.json").write_text(text)
    with pytest.raises(LabError, match=r"lab\.json cannot be read: .*remove the folder"):
        layout.load(tmp_path)


def test_commands_for_the_default_folder_need_no_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "default_folder", lambda: tmp_path / "home")
    assert layout.dir_option(tmp_path / "home") == ""
    assert layout.dir_option(Path("/my lab")) == " --dir '/my lab'"


def test_an_unknown_broker_is_refused_with_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"no broker 3 .*brokers 1, 2 and the controller 100"):
        written_lab(tmp_path).node(3)
