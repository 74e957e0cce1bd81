"""In any situation, a partition's next step keeps every rule and its steps come to an end."""

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ktui.pacing.limits import SHAPES, Limits, Shape
from ktui.pacing.situation import Blocked, Done, Situation, Step
from ktui.pacing.steps import after, all_steps, next_step
from support.rule_book import adds_too_many, step_problems
from support.runs.pacing import WHOLE, replica_lists

BROKERS = range(8)
LONGEST = 30  # more steps than any move of five replicas takes

some_replicas = replica_lists(BROKERS, 5)
some_brokers = st.frozensets(st.sampled_from(BROKERS))
most_brokers = st.frozensets(st.sampled_from(BROKERS), max_size=3).map(
    lambda gone: frozenset(BROKERS) - gone
)
all_limits = st.builds(
    Limits,
    replicas=st.sampled_from((1, 1, 2, 3, None)),
    extra_replicas=st.sampled_from((None, 1, 2)),
    shape=st.sampled_from(SHAPES),
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Draw any situation that a partition could be in."""
    replicas = draw(some_replicas)
    online = draw(most_brokers)
    lagging = draw(some_brokers)
    isr = tuple(b for b in replicas if b in online and b not in lagging)
    target = draw(some_replicas)
    return Situation(
        replicas=replicas,
        isr=isr,
        leader=draw(st.sampled_from(isr)) if isr else None,
        target=target,
        lead=draw(st.none() | st.sampled_from(target)),
        online=online,
        min_insync_replicas=draw(st.integers(1, 4)),
        waits_for_kept=draw(st.booleans()),
        intermediate=tuple(draw(st.just(()) | some_brokers)),
    )


few_brokers = st.frozensets(st.sampled_from(BROKERS), min_size=1, max_size=2)
with_cordons = st.builds(lambda now, closed: replace(now, closed=closed), situations(), few_brokers)
any_situations = situations() | with_cordons


def seen_with(now: Situation, online: frozenset[int], *, in_sync: bool = True) -> Situation:
    """Return a partition after brokers came and went; those present catch up, or do not."""
    isr = tuple(b for b in now.replicas if b in online and (in_sync or b in now.isr))
    leader = now.leader if now.leader in isr else next(iter(isr), None)
    return replace(now, isr=isr, leader=leader, online=online)


def a_step(now: Situation, limits: Limits) -> Step:
    outcome = next_step(now, limits)
    assume(isinstance(outcome, Step))
    assert isinstance(outcome, Step)
    return outcome


@given(any_situations, all_limits)
def test_a_step_always_changes_something(now: Situation, limits: Limits) -> None:
    step = a_step(now, limits)

    assert step.alters == (step.target != now.replicas)
    assert step.alters or (step.elects is not None and step.elects != now.leader)


@given(any_situations, all_limits)
def test_a_step_adds_only_wanted_replicas_and_drops_only_unwanted_ones(
    now: Situation, limits: Limits
) -> None:
    step = a_step(now, limits)

    assert set(step.target) == {*now.replicas, *step.adds} - {*step.drops}
    assert len(set(step.target)) == len(step.target) > 0
    assert {*step.adds} <= {*now.target} & now.online - {*now.replicas}
    assert {*step.drops} <= {*now.replicas} - {*now.target}


@given(any_situations, all_limits)
def test_a_step_keeps_the_rules_whatever_the_limits(now: Situation, limits: Limits) -> None:
    step = a_step(now, limits)
    least = min(now.min_insync_replicas, len(now.target))

    rules = step_problems(
        step, now, now.leader, goal=now.target, first=now.first, least=least, up=now.online
    )
    assert [*rules] == []


@given(situations(), all_limits)
def test_a_step_adds_no_more_than_allowed_except_for_min_isr(
    now: Situation, limits: Limits
) -> None:
    step = a_step(now, limits)
    least = min(now.min_insync_replicas, len(now.target))

    assert not adds_too_many(limits, step, now, least)
    if step.urgent:
        assert least > len(now.isr)
        assert limits.replicas is not None


@given(situations(), all_limits)  # a dead replica that is cordoned leaves at once
def test_dead_replicas_alone_leave_only_if_enough_stay(now: Situation, limits: Limits) -> None:
    step = a_step(now, limits)
    dead = {b for b in now.replicas if b not in now.online and b not in now.isr} - {*now.target}

    if step.drops and not step.adds and {*step.drops} <= dead:
        assert len(step.target) >= len(now.target)


@given(any_situations, all_limits)
def test_the_leader_stays_until_the_new_one_can_lead(now: Situation, limits: Limits) -> None:
    step = a_step(now, limits)
    first = now.first

    if step.elects is not None:
        assert step.elects == first
        assert step.target[0] == first
    assert step.moves_leader == (step.elects is not None or now.leader in step.drops)


@given(any_situations, all_limits)
def test_the_replica_order_stays_until_the_new_leader_leads(now: Situation, limits: Limits) -> None:
    step = a_step(now, limits)

    if not step.moves_leader and not now.leads:
        kept = [b for b in now.replicas if b in step.target]
        assert list(step.target) == [*kept, *step.adds]


@given(any_situations, all_limits)
def test_every_step_completes_with_the_brokers_that_are_up(now: Situation, limits: Limits) -> None:
    step = a_step(now, limits)
    moves = bool(step.adds or step.drops)
    waits_for_all = now.waits_for_kept or len(step.adds) < len(step.drops)
    awaited = {*step.target} if waits_for_all else {*step.adds}

    if moves:
        assert awaited <= now.online


@given(situations(), st.integers(1, 3), st.integers(1, 2))
def test_gentle_holds_no_more_extra_replicas_than_allowed(
    now: Situation, most: int, extra: int
) -> None:
    step = a_step(now, Limits(replicas=most, extra_replicas=extra))
    dead = {b for b in now.replicas if b not in now.online and b not in now.isr} - {*now.target}

    if step.adds and not step.urgent:
        assert len({*step.target} - dead) <= len(now.target) + extra


@given(situations(), all_limits)
def test_a_cut_only_drops_and_only_when_every_target_is_in_sync(
    now: Situation, limits: Limits
) -> None:
    step = a_step(now, limits)

    if step.cut:
        others = tuple(b for b in now.target if b != now.first)
        assert step.target == (now.target if now.leads else (now.first, *others))
    elif limits.shape is Shape.GENTLE and limits.replicas is not None:
        assert not (step.adds and {*step.drops} & now.online)


@given(any_situations, all_limits)
def test_a_blocked_partition_names_what_it_waits_for(now: Situation, limits: Limits) -> None:
    outcome = next_step(now, limits)
    assume(isinstance(outcome, Blocked))
    assert isinstance(outcome, Blocked)

    assert outcome.brokers or now.leader is None
    assert {*outcome.brokers} <= {*now.replicas, *now.target}
    assert outcome.sentence


@given(situations(), all_limits)
def test_the_steps_end_at_the_target_with_everything_online_and_in_sync(
    now: Situation, limits: Limits
) -> None:
    now = seen_with(now, frozenset(BROKERS))

    steps = all_steps(now, limits)

    assert len(steps) <= LONGEST
    end = now
    for step in steps:
        end = after(end, step)
    assert (end.replicas, end.leader) == (now.target, now.first)


@given(situations(), all_limits)
def test_a_partition_online_and_in_sync_is_never_blocked(now: Situation, limits: Limits) -> None:
    assert not isinstance(next_step(seen_with(now, frozenset(BROKERS)), limits), Blocked)


@given(any_situations, all_limits)
def test_the_steps_end_at_the_target_or_blocked_when_brokers_stay_down(
    now: Situation, limits: Limits
) -> None:
    for _ in range(LONGEST):
        outcome = next_step(now, limits)
        if not isinstance(outcome, Step):
            break
        now = seen_with(after(now, outcome), now.online)
    assert not isinstance(outcome, Step)
    if isinstance(outcome, Done):
        assert (now.replicas, now.leader) == (now.target, now.first)


@given(situations(), st.lists(st.tuples(most_brokers, all_limits, st.booleans()), max_size=12))
def test_the_steps_end_at_the_target_after_any_outages_and_limit_changes(
    now: Situation, fate: list[tuple[frozenset[int], Limits, bool]]
) -> None:
    limits = Limits(replicas=1)
    for online, limits, in_sync in fate:
        now = seen_with(now, online, in_sync=in_sync)
        outcome = next_step(now, limits)
        if isinstance(outcome, Step):
            now = seen_with(after(now, outcome), online)

    now = seen_with(now, frozenset(BROKERS))
    for step in all_steps(now, limits):
        now = after(now, step)

    assert (now.replicas, now.leader) == (now.target, now.first)


@given(situations(), all_limits)
def test_shape_whole_asks_for_the_target_in_one_step_or_names_the_added_brokers_that_are_down(
    now: Situation, limits: Limits
) -> None:
    now = replace(now, lead=None)
    outcome = next_step(now, replace(limits, shape=Shape.WHOLE))

    match outcome:
        case Step():
            assert outcome.alters
            assert (outcome.target, outcome.elects) == (now.target, None)
            assert {*now.replicas} - {*outcome.drops} | {*outcome.adds} == {*now.target}
            assert {*outcome.adds} <= now.online - {*now.replicas}
            assert isinstance(next_step(after(now, outcome), WHOLE), Done)
        case Blocked():
            assert {*outcome.brokers} == {*now.target} - {*now.replicas} - now.online
            assert outcome.brokers
        case Done():
            assert now.replicas == now.target


@given(situations(), all_limits)
def test_a_rollback_in_shape_whole_keeps_the_rules_of_a_single_guarded_step(
    now: Situation, limits: Limits
) -> None:
    now = replace(now, lead=now.lead or now.target[0])
    guarded = replace(limits, replicas=None, shape=Shape.GENTLE)

    assert next_step(now, replace(guarded, shape=Shape.WHOLE)) == next_step(now, guarded)


@given(with_cordons, all_limits | st.just(WHOLE))
def test_no_step_asks_for_a_list_that_names_a_cordoned_broker(
    now: Situation, limits: Limits
) -> None:
    step = a_step(now, limits)

    assert not (step.alters and {*step.target} & now.closed)


@given(with_cordons, all_limits)
def test_a_cordoned_replica_leaves_in_sync_only_while_those_kept_or_those_added_are_enough(
    now: Situation, limits: Limits
) -> None:
    step = a_step(now, limits)
    if step == next_step(replace(now, closed=frozenset()), limits):
        return  # the usual rules hold for it
    min_isr = min(now.min_insync_replicas, len(now.target))

    assert {*step.drops} >= {*now.replicas} & now.closed
    if {*step.drops} & {*now.isr}:
        assert len({*now.isr} - now.closed) >= min_isr or len(step.adds) >= min_isr


@given(with_cordons, all_limits)
def test_with_everything_in_sync_only_a_cordon_blocks_and_its_end_lets_the_partition_arrive(
    now: Situation, limits: Limits
) -> None:
    now = seen_with(now, frozenset(BROKERS))
    for step in all_steps(now, limits):
        now = after(now, step)
    outcome = next_step(now, limits)

    if isinstance(outcome, Blocked):
        assert {*outcome.brokers} <= now.closed
        assert "cordoned" in outcome.sentence
    now = replace(now, closed=frozenset())
    for step in all_steps(now, limits):
        now = after(now, step)
    assert (now.replicas, now.leader) == (now.target, now.first)


TEN = range(10)
LIMITS = st.builds(Limits, replicas=st.sampled_from((1, 2, None)), shape=st.sampled_from(SHAPES))


@st.composite
def retargeted(draw: st.DrawFn) -> Situation:
    """Draw a partition with its original replicas and some that are no longer wanted."""
    brokers = draw(st.permutations(TEN))
    original, intermediate = tuple(brokers[:3]), tuple(brokers[3 : draw(st.integers(4, 6))])
    replicas = (*original, *intermediate)
    target = draw(st.permutations([b for b in TEN if b not in intermediate]))
    lagging = draw(st.frozensets(st.sampled_from(replicas), max_size=2))
    isr = tuple(broker for broker in replicas if broker not in lagging)
    return Situation(
        replicas=replicas,
        isr=isr,
        leader=draw(st.sampled_from(isr)),
        target=tuple(target[: draw(st.integers(2, 3))]),
        online=frozenset(TEN),
        min_insync_replicas=draw(st.integers(1, 2)),
        intermediate=intermediate,
    )


@given(retargeted(), LIMITS)
def test_unwanted_replicas_are_dropped_before_any_is_added(now: Situation, limits: Limits) -> None:
    now = replace(now, isr=now.replicas)
    assume(now.leader not in now.intermediate)

    first, *_ = all_steps(now, limits)

    assert {*first.drops} == {*now.intermediate}
    assert not first.adds


@given(retargeted(), LIMITS)
def test_an_unwanted_leader_stays_until_another_leads(now: Situation, limits: Limits) -> None:
    leader = now.intermediate[0]
    now = replace(now, isr=now.replicas, leader=leader)

    step = next_step(now, limits)

    assert isinstance(step, Step)
    assert leader not in step.drops or step.elects is not None or step.target == now.target


@given(retargeted(), LIMITS)
def test_unwanted_replicas_out_of_sync_are_dropped_first(now: Situation, limits: Limits) -> None:
    step = next_step(now, limits)

    assume(isinstance(step, Step))
    assert isinstance(step, Step)
    lags = {broker for broker in now.intermediate if broker not in now.isr}
    if {*step.drops} & {*now.intermediate} & {*now.isr}:
        assert lags <= {*step.drops}


@given(retargeted(), LIMITS)
def test_the_steps_of_a_retargeted_partition_end_at_the_target(
    now: Situation, limits: Limits
) -> None:
    steps = all_steps(now, limits)

    assert steps[-1].target == now.target
    assert len(steps) < len(TEN)
