"""The doctor names the topics of canaries, and who deletes each."""

from __future__ import annotations

from ktui.cli.doctor.findings import judge_canaries

TOPICS = ["ktui-canary-over", "orders", "ktui-canary-left", "ktui-canary-goes-on"]


def test_each_topic_of_a_canary_is_named_with_what_deletes_it() -> None:
    found = judge_canaries(TOPICS, live={"goes-on"}, resumable={"left"})

    whats = [each.what.removeprefix("topic ktui-canary-") for each in found]
    assert whats == [
        "goes-on: the canary of run goes-on, which is live",
        "left: the canary of run left, which waits for resume",
        "over: the canary of run over, which no run of this state directory uses",
    ]
    assert found[1].fix.startswith("`ktui resume left` takes it up again")
    assert found[2].fix.endswith("kafka-topics.sh --delete --topic ktui-canary-over")
