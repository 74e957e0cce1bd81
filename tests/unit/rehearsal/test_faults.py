"""A fault is read from one line, and a mistake in it is named with its fix."""

from __future__ import annotations

import pytest

from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import topic_resource
from ktui.rehearsal.faults import FaultMoment, FaultProblem, parse_fault
from ktui.simulated import layout
from ktui.simulated.layout import OutsideEvent
from support.rehearsal.small_twins import SPEC

MIN_ISR = ConfigChange(topic_resource("orders"), "min.insync.replicas", ConfigOp.SET, "1")


@pytest.mark.parametrize(
    ("text", "moment", "acts"),
    [
        ("kill 5 at 40%", FaultMoment(share=0.4), [(0.0, layout.Kill(5))]),
        ("stop 5 at 10m", FaultMoment(after_s=600.0), [(0.0, layout.Shutdown(5))]),
        ("  start  5  at 60% ", FaultMoment(share=0.6), [(0.0, layout.Start(5))]),
        (
            "suspend 3 for 60s at 50%",
            FaultMoment(share=0.5),
            [(0.0, layout.Hang(3)), (60.0, layout.Resume(3))],
        ),
        ("suspend 3 at 1h30m", FaultMoment(after_s=5_400.0), [(0.0, layout.Hang(3))]),
        ("slow 3 to 20% at 1m", FaultMoment(after_s=60.0), [(0.0, layout.Slow(3, 0.2))]),
        ("disk 4 full at 30%", FaultMoment(share=0.3), [(0.0, layout.FillDisk(4, 0))]),
        ("disk 4 leave 1GB at 0%", FaultMoment(share=0.0), [(0.0, layout.FillDisk(4, 10**9))]),
        (
            "load x2 at 10m",
            FaultMoment(after_s=600.0),
            [(0.0, layout.SetInbound("orders", 20_000.0))],
        ),
        (
            "load orders x0.5 at 10m",
            FaultMoment(after_s=600.0),
            [(0.0, layout.SetInbound("orders", 5_000.0))],
        ),
        ("delete empty at 1m", FaultMoment(after_s=60.0), [(0.0, layout.DeleteTopic("empty"))]),
        ("controller moves at 1m", FaultMoment(after_s=60.0), [(0.0, layout.ChangeController())]),
        (
            "min.insync.replicas orders=1 at 1h",
            FaultMoment(after_s=3_600.0),
            [(0.0, layout.AlterConfigs((MIN_ISR,)))],
        ),
    ],
)
def test_a_fault_has_its_moment_and_what_happens_then(
    text: str, moment: FaultMoment, acts: list[tuple[float, OutsideEvent]]
) -> None:
    fault = parse_fault(text, SPEC)

    assert fault.at == moment
    assert list(fault.acts) == acts


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kill 5", "`at 40%`"),
        ("kill 5 at soon", "'soon' is not a time"),
        ("kill 5 at 120%", "at most 100%"),
        ("kil 5 at 40%", "Did you mean `kill`?"),
        ("explode 5 at 40%", "`kill BROKER`"),
        ("kill 9 at 40%", "The brokers are 1, 2, 3, 4, 5"),
        ("kill five at 40%", "there is no broker 'five'"),
        ("kill 4 5 at 40%", "expected `kill BROKER`"),
        ("suspend 3 fro 60s at 50%", "expected `suspend BROKER for TIME`"),
        ("suspend 3 for long at 50%", "'long': expected a time"),
        ("slow 3 to 200% at 50%", "at most 100 %"),
        ("disk 4 empty at 50%", "expected `disk BROKER full`"),
        ("load ordrs x2 at 1m", "Did you mean 'orders'?"),
        ("load empty x2 at 1m", "nothing is written to it"),
        ("load 2 at 1m", "expected `load xFACTOR`"),
        ("min.insync.replica orders=2 at 1h", "did you mean 'min.insync.replicas'?"),
        ("min.insync.replicas orders at 1h", "`KEY TOPIC=VALUE`"),
        ("min.insync.replicas orders=many at 1h", "Kafka would refuse it"),
        ("controller dies at 1h", "expected `controller moves`"),
    ],
)
def test_a_mistake_in_a_fault_is_named_with_its_fix(text: str, named: str) -> None:
    with pytest.raises(FaultProblem) as caught:
        parse_fault(text, SPEC)

    assert named in str(caught.value)
