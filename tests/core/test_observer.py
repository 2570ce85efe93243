from __future__ import annotations

import inspect
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Make, clients_around, tune
from tests.watched import Watched

import hushtune as ht
from hushtune.core import observer as seam
from hushtune.core.errors import BoundError, ObjectiveError
from hushtune.core.observer import Even, bars_unless, shown, together, told_failures
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation

EVENTS = {name for name in vars(ht.Observer) if not name.startswith("_")}
PROGRAM = """
from hushtune import Bars
with Bars().phase("work", 1) as advance:
    print("a row")
    advance(1)
"""


def tell_all(observer: ht.Observer) -> None:
    with observer.phase("work", 4, ["a", "b"]) as advance:
        advance(0, 0)
        advance(1, 0)
        advance(3, 1)
    observer.say("a line")
    observer.opened(1, 2, "top-votes")
    observer.dropped("a", "no reply")
    observer.spent(0.5, 1e-5)
    observer.failed("too few")
    observer.done({"x": 1.0})


ALL = [
    ("phase", "work", 4, ["a", "b"]),
    ("advance", 0, 0),
    ("advance", 1, 0),
    ("advance", 3, 1),
    ("end", "work"),
    ("say", "a line"),
    ("opened", 1, 2, "top-votes"),
    ("dropped", "a", "no reply"),
    ("spent", 0.5, 1e-5),
    ("failed", "too few"),
    ("done", {"x": 1.0}),
]


# ---- observers ---------------------------------------------------------------------------------------


def test_what_is_printed_reaches_a_file_while_a_terminal_shows_bars() -> None:
    terminal, end = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=end, text=True, check=True, timeout=60
        )
        shown_ = os.read(terminal, 10_000).decode()
    finally:
        os.close(terminal)
        os.close(end)
    assert done.stdout == "a row\n"
    assert "work" in shown_
    assert "a row" not in shown_


def test_bars_show_each_of_a_few_and_the_time_left(capfd: Any) -> None:
    with ht.Bars().phase("work", 6, ["one", "another"]) as advance:
        advance(3, 1)
    printed = capfd.readouterr().err
    for part in ("work", "3/6", "one", "0/3", "another", "3/3", "left"):
        assert part in printed
    with ht.Bars().phase("work", 34, [str(name) for name in range(17)]) as advance:
        advance(2, 16)
    assert len(capfd.readouterr().err.splitlines()) == 1
    with ht.Bars().phase("work", 0) as advance:
        advance(0)
    assert capfd.readouterr().err == ""
    ht.Bars().say("[bold] 1 of 2")
    assert capfd.readouterr().err == "[bold] 1 of 2\n"


@pytest.mark.parametrize("observer", [ht.Observer(), ht.Silent(), bars_unless(True)])
def test_who_overrides_nothing_shows_nothing(observer: ht.Observer, capfd: Any) -> None:
    tell_all(observer)
    assert capfd.readouterr() == ("", "")


def test_several_are_told_the_same() -> None:
    one, other = Watched(), Watched()
    tell_all(together(one, other))
    assert one.events == other.events == ALL


# ---- what a private run may show ---------------------------------------------------------------------


def test_an_exact_run_shows_everything() -> None:
    watched = Watched()
    tell_all(shown(watched, private=False))
    assert watched.events == ALL


def test_a_private_run_shows_neither_how_far_each_is_nor_steps_of_nothing() -> None:
    watched = Watched()
    tell_all(shown(watched, private=True))
    assert watched.events == [("phase", "work", 4, []), *[("advance", 1, None)] * 4, *ALL[4:]]


@pytest.mark.parametrize("total", [0, 1, 7, 100, 250, 1001])
def test_a_private_run_counts_in_steps_that_follow_from_the_total_alone(total: int) -> None:
    """Whatever was cached, failed or had nothing to do, and in whatever pieces the rest is done."""
    seen = []
    for pieces in ([], [1] * total, [total], [0, total // 3, 1], [5] * total, [total, total]):
        watched = Watched()
        with shown(watched, private=True).phase("work", total) as advance:
            for piece in pieces:
                advance(piece, 0)
        seen.append(watched.events)
    assert all(events == seen[0] for events in seen)
    assert sum(done for _, done, _ in (event for event in seen[0] if event[0] == "advance")) == total
    assert len(seen[0]) == 2 + min(total, 100)


def test_a_phase_that_fails_is_not_counted_to_its_end() -> None:
    watched = Watched()

    def fail() -> None:
        with shown(watched, private=True).phase("work", 4) as advance:
            advance(2)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert watched.kinds("advance") == [("advance", 1, None)] * 2


def test_only_a_real_run_with_an_epsilon_tells_observers_to_keep_no_times(
    make_clients: Make, candidates: ht.Candidates
) -> None:
    for changes, timed in (
        ({}, False),
        ({"simulation": ht.Simulation(1)}, True),
        ({"privacy": None, "seal": ht.Clear()}, True),
    ):
        one, other = Watched(), Watched()
        names = [ht.Client(c.data, c.objective, name=f"{len(changes)}-{at}") for at, c in enumerate(make_clients(3))]
        tune(names, candidates, observer=together(one, other), **changes)
        assert (one.timed, other.timed) == (timed, timed)


def test_for_every_event_it_was_decided_whether_a_private_run_shows_it() -> None:
    assert set(vars(seam._Shown)) >= EVENTS
    assert set(vars(seam._Together)) >= EVENTS
    assert {name for name, _ in inspect.getmembers(Watched, inspect.isfunction)} >= EVENTS


def test_what_will_not_be_done_is_counted_in_its_turn() -> None:
    counted: list[int] = []
    even = Even(lambda done, who=None: counted.append(done))
    even.owe([10, 20], first=1, every=2)
    for size in (1, 2, 3):
        even.count(size)
    even.owe([30], first=9)
    assert counted == [1, 10, 2, 3, 20]
    even.end()
    assert counted == [1, 10, 2, 3, 20, 30]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ht.AbortedError("9 of 10 must answer"), "9 of 10 must answer"),
        (ObjectiveError("secret 3"), "ObjectiveError"),
        (BoundError("secret 3"), "BoundError"),
        (ValueError("secret 3"), "ValueError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_only_errors_that_hold_nothing_of_the_data_are_quoted(error: BaseException, told: str) -> None:
    watched = Watched()
    with pytest.raises(type(error)), told_failures(watched):
        raise error
    assert watched.events == [("failed", told)]


# ---- an observer of one's own ------------------------------------------------------------------------


def test_a_run_tells_what_happens_in_order(make_clients: Make, candidates: ht.Candidates) -> None:
    watched = Watched()
    result = tune(make_clients(6), candidates, observer=watched)
    begun = [event[1:3] for event in watched.kinds("phase")]
    assert begun == [("scoring", 66), *((f"secure sum: {name}", 6) for name in ("keys", "shares", "input", "unmask"))]
    assert watched.events[:4] == [("phase", "scoring", 66, []), *[("advance", 1, None)] * 3]
    told = [event for event in watched.events if event[0] not in ("phase", "advance")]
    assert told == [
        *(("end", name) for name in ("scoring", "secure sum: keys", "secure sum: shares")),
        ("spent", result.spent.epsilon, result.spent.delta),
        *(("end", name) for name in ("secure sum: input", "secure sum: unmask")),
        ("opened", 1, 1, "top-votes"),
        ("done", result.config),
    ]
    assert 0 < result.spent.epsilon <= 3


def test_every_step_is_told_and_the_cost_once(tmp_path: Path, candidates: ht.Candidates) -> None:
    watched = Watched()
    settings: dict[str, Any] = {"method": ht.Combine("dbscan"), "privacy": ht.Privacy(3.0), "observer": watched}
    tune(clients_around(12), ht.Space(x=ht.Float(0.0, 1.0)).sample(8), search=None, **settings)
    told = [event[:3] for event in watched.kinds("opened", "spent", "done")]
    assert [event[0] for event in told] == ["spent", "opened", "opened", "done"]
    assert told[1:3] == [("opened", 1, 2), ("opened", 2, 2)]


def test_who_is_missing_is_told_before_the_step_is_opened(
    make_clients: Make, candidates: ht.Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, watched = LocalFederation.exchange, Watched()

    def lossy(self: LocalFederation, trip: Any, observer: ht.Observer) -> Any:
        return {**real(self, trip, observer), "client-03": Dropped("no reply in time")}

    monkeypatch.setattr(LocalFederation, "exchange", lossy)
    result = tune(make_clients(10), candidates, observer=watched, seal=ht.Clear(dropouts=0.2))
    assert watched.kinds("dropped", "opened") == [
        ("dropped", "client-03", result.dropped["client-03"]),
        ("opened", 1, 1, "top-votes"),
    ]


@pytest.mark.parametrize("changes", [{"privacy": None}, {"simulation": ht.Simulation(0)}])
def test_what_costs_nothing_tells_no_cost(make_clients: Make, candidates: ht.Candidates, changes: Any) -> None:
    watched = Watched()
    tune(make_clients(4), candidates, observer=watched, **changes)
    assert [event[0] for event in watched.kinds("spent", "opened", "done")] == ["opened", "done"]


def test_a_run_that_is_taken_up_again_tells_what_it_has_opened(
    make_clients: Make, candidates: ht.Candidates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    first, second, folder = Watched(), Watched(), tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("hushtune.run.result.Result.save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(make_clients(4), candidates, observer=first, folder=folder)
    assert first.events[-1] == ("failed", "KeyboardInterrupt")
    tune(make_clients(4), candidates, observer=second, folder=folder)
    assert [event[0] for event in second.events] == ["opened", "done"]


def test_what_ends_a_run_is_told(make_clients: Make, candidates: ht.Candidates) -> None:
    clients, watched = make_clients(10), Watched()
    for client in clients[:2]:
        client.policy = ht.Policy(opt_out=True)
    with pytest.raises(ht.AbortedError) as caught:
        tune(clients, candidates, observer=watched)
    assert watched.events[-1] == ("failed", str(caught.value))


def test_an_exact_adaptive_search_shows_how_far_each_is_and_a_private_one_does_not() -> None:
    space = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0))
    for privacy, names in ((None, ["client-00", "client-01"]), (ht.Privacy(9.0), [])):
        watched = Watched()
        settings: dict[str, Any] = {"method": ht.Combine(), "seal": ht.Clear(), "search": ht.Search.adaptive(10)}
        tune(clients_around(2), space, privacy=privacy, observer=watched, **settings)  # type: ignore[arg-type]
        assert watched.events[0] == ("phase", "scoring", 20, names)
        whose = {who for _, done, who in watched.kinds("advance") if done and who is not None}
        assert whose == ({0, 1} if names else set())


class Raises(ht.Observer):
    def opened(self, step: int, of: int, what: str) -> None:
        raise np.exceptions.AxisError("not mine")


def test_what_an_observer_raises_ends_the_run(make_clients: Make, candidates: ht.Candidates) -> None:
    with pytest.raises(np.exceptions.AxisError):
        tune(make_clients(4), candidates, observer=Raises())


@pytest.mark.parametrize("given", [None, True, ht.Silent])
def test_what_is_no_observer_is_refused(make_clients: Make, candidates: ht.Candidates, given: Any) -> None:
    with pytest.raises(ht.SettingError, match="observer must be an Observer"):
        tune(make_clients(4), candidates, observer=given)
