"""A plan in the words of `ktui plan`, as the command line of the view takes it."""

from __future__ import annotations

import pytest

from ktui.tui.run_view.launchers import BadCommand
from ktui.tui.run_view.plan_request import PlanRequest, parse_plan_words


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("drain 3 7", PlanRequest("drain", {"brokers": "3,7"})),
        ("drain", PlanRequest("drain")),
        ("swap 3 7", PlanRequest("swap", {"old": "3", "new": "7"})),
        (
            "shed 3 --below 80% --keep-order",
            PlanRequest("shed", {"broker": "3", "until": "80%", "keep_order": "yes"}),
        ),
        (
            "replication-factor 3 orders pay-*",
            PlanRequest("replication-factor", {"factor": "3", "topics": "orders,pay-*"}),
        ),
        (
            "spread --by=leaders --within 5% --brokers 1,2",
            PlanRequest("spread", {"by": "leaders", "within": "5%", "among": "1,2"}),
        ),
        (
            "placement rules.yaml --topics o* --exclude audit --max-bytes 5GB",
            PlanRequest(
                "placement",
                {"rules": "rules.yaml", "only": "o*", "exclude": "audit", "max_bytes": "5GB"},
            ),
        ),
    ],
)
def test_the_words_of_the_shell_fill_the_fields(line: str, request_: PlanRequest) -> None:
    assert parse_plan_words(line.split()) == request_


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("drian 3", "there is no plan 'drian'. Did you mean drain?"),
        ("", "there is no plan ''. Use drain or fill"),
        ("swap 3 7 9", "swap: nothing may follow 3 7"),
        ("leaders --max-moves 3", "leaders has no option --max-moves here. It has --topics"),
        ("drain 3 --max-moves", "--max-moves needs a value"),
        ("spread --by size", "--by: 'size' is not one of bytes"),
    ],
)
def test_what_the_fields_have_no_place_for_is_refused(line: str, problem: str) -> None:
    with pytest.raises(BadCommand) as said:
        parse_plan_words(line.split())
    assert problem in str(said.value)
