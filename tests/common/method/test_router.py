import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regionfed.errors import ConfigError, StateError
from regionfed.method.rho import check_fixed
from regionfed.method.router import PaperRouter, RegionFacts, ResidualRouter, RouterState

FACTS = RegionFacts(d=1.0, mu=1.0, h=0.0, size=100, mean_size=100, floor=0.1)


@pytest.mark.parametrize(
    ("d", "h", "size", "expected"),
    [
        (1.1, 0.06, 100, "meta"),
        (1.1, 0.06, 1000, "meta"),
        (1.0, 0.06, 100, "grad"),
        (1.1, 0.05, 100, "grad"),
        (1.0, 0.06, 151, "interp"),
        (1.1, 0.05, 151, "interp"),
        (0.5, 0.0, 150, "grad"),
    ],
)
def test_the_papers_routing_is_strict_and_in_order(d, h, size, expected):
    facts = replace(FACTS, d=d, h=h, size=size)
    assert PaperRouter().choose(facts, RouterState(), round_=1).strategy == expected


def test_an_explicit_threshold_replaces_mu():
    facts = replace(FACTS, d=1.5, h=1.0)
    assert PaperRouter(tau_d=2.0).choose(facts, RouterState(), round_=1).strategy == "grad"


def replay(router, facts, personalised, plain):
    """Drive one region over rounds where each strategy has its accuracy per round."""
    state, served, chosen = RouterState(), [], []
    for round_, none in enumerate(plain, start=1):
        state = RouterState.from_dict(json.loads(json.dumps(state.to_dict())))
        choice = router.choose(facts, state, round_=round_)
        chosen.append(choice.strategy)
        got = personalised(choice.strategy, round_, none)
        verdict = check_fixed({0.0: 1 - none / 100, 1.0: 1 - got / 100})
        served.append(got if verdict.helped else none)
        state = state.record(
            choice.strategy, round_=round_, helped=verdict.helped, cooldown=router.cooldown
        )
    return chosen, served, state


def test_the_published_grocery_region_is_not_kept_on_interp():
    interp = {1: 91.0, 2: 88.0, 3: 85.0, 4: 82.0, 5: 78.0}
    plain = [90.5, 90.8, 91.0, 91.2, 91.3]
    facts = replace(FACTS, d=0.8, size=400)

    def accuracy(strategy, round_, none):
        return interp[round_] if strategy == "interp" else none + 0.1

    chosen, served, state = replay(PaperRouter(cooldown=3), facts, accuracy, plain)
    assert chosen == ["interp", "interp", "grad", "grad", "grad"]
    assert all(s >= p for s, p in zip(served, plain, strict=True))
    assert min(served) > 90
    assert state.failures == {"interp": 1}
    reason = PaperRouter().choose(facts, state, round_=5).reason
    assert "interp did not beat no personalisation, left out through round 5" in reason


def test_a_failed_strategy_gets_another_try_after_the_cooldown():
    facts = replace(FACTS, size=400)
    chosen, served, state = replay(PaperRouter(cooldown=2), facts, lambda *_: 50.0, [90.0] * 7)
    # Interp fails, then Grad fails, then nothing is left until Interp's rest is over.
    assert chosen == ["interp", "grad", "none", "interp", "grad", "none", "interp"]
    assert served == [90.0] * 7
    assert state.failures == {"interp": 3, "grad": 2}


def test_dynamic_corrects_where_there_is_conflict_only():
    router = ResidualRouter(margin=1.5)
    assert router.choose(FACTS, RouterState(), round_=1).strategy == "residual"
    aligned = replace(FACTS, d=0.15)
    assert router.choose(aligned, RouterState(), round_=1).strategy == "none"
    unknown = replace(FACTS, floor=None)
    assert router.choose(unknown, RouterState(), round_=1).strategy == "residual"


def test_dynamic_judges_by_all_rounds_so_far():
    router = ResidualRouter(margin=1.08)
    noisy = [replace(FACTS, d=d, floor=1.0) for d in (1.05, 0.97, 1.2, 1.2)]
    state, chosen = RouterState(), []
    for number, facts in enumerate(noisy, start=1):
        choice = router.choose(facts, RouterState.from_dict(state.to_dict()), round_=number)
        chosen.append(choice.strategy)
        state = state.after(choice.strategy, facts)
    # 1.05, rms 1.01, rms 1.08 and rms 1.11.
    assert chosen == ["none", "none", "none", "residual"]
    assert state.seen == 4


def test_dynamic_keeps_a_correction_that_has_removed_the_conflict():
    aligned = replace(FACTS, d=0.01)
    on_residual = RouterState().record("residual", round_=1, helped=True, cooldown=3)
    assert ResidualRouter().choose(aligned, on_residual, round_=2).strategy == "residual"


def test_dynamic_falls_back_to_the_papers_order():
    facts = replace(FACTS, d=2.0, h=1.0)

    def accuracy(strategy, round_, none):
        return none - 5 if strategy == "residual" else none + 1

    chosen, _, state = replay(ResidualRouter(), facts, accuracy, [80.0] * 5)
    assert chosen == ["residual", "meta", "meta", "meta", "residual"]
    choice = ResidualRouter().choose(facts, state, round_=6)
    assert choice.reason.startswith("residual left out through round 8; d = 2 > tau_d")


@given(
    st.lists(
        st.tuples(st.sampled_from(["grad", "interp", "meta", "residual", "none"]), st.booleans())
    ),
    st.floats(0, 10),
    st.floats(0, 1),
    st.floats(0, 1000),
)
def test_no_router_ever_chooses_what_is_left_out(history, d, h, size):
    state = RouterState()
    for round_, (strategy, helped) in enumerate(history, start=1):
        state = state.record(strategy, round_=round_, helped=helped, cooldown=4)
    assert RouterState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
    facts = replace(FACTS, d=d, h=h, size=size)
    for router in (PaperRouter(), ResidualRouter()):
        now = len(history) + 1
        assert not state.blocked(router.choose(facts, state, round_=now).strategy, round_=now)


def test_errors():
    with pytest.raises(ConfigError):
        PaperRouter(cooldown=0)
    with pytest.raises(ConfigError, match="d"):
        replace(FACTS, d=float("nan"))
    with pytest.raises(StateError, match="blocked_through"):
        RouterState.from_dict({"failures": {}, "last": None})
    with pytest.raises(StateError, match="last"):
        RouterState.from_dict({"blocked_through": {}, "failures": {}, "last": 3})
