from __future__ import annotations

import gc

from ktui.cli.output.view import rare_collections


def test_a_view_leaves_the_collector_as_it_found_it() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_freeze_count()
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()
