"""Plans that change replication factors, and that repair racks."""

from __future__ import annotations

import pytest

from ktui.planning.intents.made_plan import CannotMake, Wishes, left_lines
from ktui.planning.intents.placing import rack_repair
from ktui.planning.intents.rack_repair import replication_factor
from support.layouts import healthy, layout, left, targets

ANY = Wishes()


def test_topics_get_another_replication_factor() -> None:
    cluster = layout(healthy((1, 2), (2, 3, 1)) | healthy((1, 2), topic="other"))
    made = replication_factor(cluster, ["a"], 3, ANY)

    assert targets(made).keys() == {"a-0"}
    assert targets(made)["a-0"][:2] == (1, 2)
    with pytest.raises(CannotMake, match=r"no topic othr; did you mean other\?"):
        replication_factor(cluster, ["othr"], 3, ANY)
    with pytest.raises(CannotMake, match="Every partition has 2 replicas already"):
        replication_factor(cluster, ["other"], 2, ANY)
    with pytest.raises(CannotMake, match="at least 1, not 0"):
        replication_factor(cluster, ["other"], 0, ANY)
    with pytest.raises(CannotMake, match="cannot have 7 replicas: 6 brokers are online"):
        replication_factor(cluster, ["other"], 7, ANY)


def test_a_dead_replica_goes_first_when_there_are_too_many() -> None:
    cluster = layout(healthy((1, 2, 3)), down=[2])

    assert targets(replication_factor(cluster, ["a"], 2, ANY)) == {"a-0": (1, 3)}


def test_a_new_replica_goes_where_there_is_room() -> None:
    cluster = layout(healthy((1,)), brokers=[1, 2, 3, 4], room={2: 0, 3: 0})

    assert targets(replication_factor(cluster, ["a"], 2, ANY)) == {"a-0": (1, 4)}


def test_a_partition_that_gets_too_few_replicas_is_named() -> None:
    cluster = layout(healthy((1,), (1,)), brokers=[1, 2], room={2: 1})
    made = replication_factor(cluster, ["a"], 2, ANY)

    assert made.moves == 1
    assert left(made) == {("a-1", None, "room")}
    assert [*left_lines(made.left)] == ["1 partition stays as it is: no broker has room (a-1)."]


def test_a_partition_gets_the_racks_that_it_lacks_and_its_leader_stays() -> None:
    cluster = layout(healthy((1, 4, 2), (1, 2, 3)), racks="abcabc")
    made = rack_repair(cluster, ANY)

    assert targets(made) == {"a-0": (1, 2, 6)}
    assert made.leader_changes == 0


def test_racks_that_are_as_many_as_they_can_be_need_no_repair() -> None:
    with pytest.raises(CannotMake, match="nothing to repair"):
        rack_repair(layout(healthy((1, 2, 4)), brokers=[1, 2, 4], racks="aba"), ANY)
    with pytest.raises(CannotMake, match=r"set broker\.rack"):
        rack_repair(layout(healthy((1, 2))), ANY)
