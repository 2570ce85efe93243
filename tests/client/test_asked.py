"""What a request may have a client train with, through the one way out: nothing is loaded, scored or charged before."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from tests.client.harness import ROSTER, RUN, refusal, request
from tests.client.harness import party as party_of

import hushtune as ht
from hushtune.client.asked import allows, check_asked, check_configs
from hushtune.client.party import Party
from hushtune.client.release import respond
from hushtune.client.search.base import Search
from hushtune.core.wire import pack, unpack
from hushtune.methods.contributions import SentPairs
from hushtune.methods.thompson.exploration import Explorers
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.noise.base import Noise
from hushtune.seals.clear import Clear
from hushtune.seals.plain import vector_of

OWN = ht.Space(x=ht.Float(0.0, 1.0), kind=ht.Choice(["a", "b"]))
PUBLIC: dict[str, Any] = {"noise": Noise(0.0), "privacy": None, "events": ()}


@dataclass
class Watched:
    """An objective, and data, that note in a file when they are used: a client has a copy of its objective."""

    place: Path

    @property
    def used(self) -> list[str]:
        return self.place.read_text().split() if self.place.exists() else []

    def note(self, what: str) -> None:
        with open(self.place, "a") as file:
            file.write(f"{what}\n")

    def load(self) -> Any:
        self.note("loaded")
        return np.zeros((8, 1)), np.arange(8.0)

    def fingerprint(self) -> str:
        return "watched"

    def losses(self, configs: Any, data: Any, seed: int) -> Any:
        self.note("scored")
        return np.arange(float(len(configs)))


def inside(tmp_path: Path, client: ht.Client) -> Party:
    made = party_of(tmp_path)
    made.client = client
    return made


def vote(candidates: ht.Candidates) -> TopVotes:
    return TopVotes(1, candidates, 0)


def candidates(*configs: dict[str, Any], space: ht.Space = OWN) -> ht.Candidates:
    return space.candidates(configs)


OUTSIDE: dict[str, tuple[ht.Candidates, str]] = {
    "unknown knob": (
        ht.Space(x=ht.Float(0.0, 1.0), memory=ht.Choice(["/tmp/x"])).grid(x=2),
        "space: 'memory' is no knob that this client's owner named",
    ),
    "other type": (ht.Space(x=ht.Int(0, 1)).grid(x=2), "space: knob 'x' must be a number from 0.0 to 1.0"),
    "a choice": (ht.Space(x=ht.Choice([0.5])).grid(), "space: knob 'x' must be a number from 0.0 to 1.0"),
    "out of range": (ht.Space(x=ht.Float(0.0, 2.0)).grid(x=3), "space: knob 'x' .* but got 2.0"),
    "outside its own space": (
        candidates({"x": 0.5, "kind": "a"}, {"x": 7.0, "kind": "a"}),
        "space: knob 'x' must be a number from 0.0 to 1.0, but got 7.0",
    ),
    "another option": (
        candidates({"x": 0.5, "kind": "a"}, {"x": 0.5, "kind": "(a+)+$"}),
        "space: knob 'kind' must be a choice of",
    ),
}


@pytest.mark.parametrize("case", list(OUTSIDE))
@pytest.mark.parametrize("who", ["client", "policy", "both"])
@pytest.mark.parametrize("voters", [1, 2])
def test_candidates_outside_the_owners_space_are_refused_before_anything_else(
    tmp_path: Path, case: str, who: str, voters: int
) -> None:
    """Also where a request without epsilon would have the rows split: that loads them."""
    watched = Watched(tmp_path / "used")
    asked, message = OUTSIDE[case]
    spaces = {"client": (OWN, None), "policy": (None, OWN), "both": (asked.hull, OWN)}[who]  # the hull allows it all
    client = ht.Client(watched.load, watched, space=spaces[0], policy=ht.Policy(space=spaces[1]))
    party = inside(tmp_path, client)
    reply = respond(request(query=vote(asked), voters=voters, **PUBLIC).to_bytes(), party, ROSTER)
    with pytest.raises(ht.RefusedError, match=message):
        raise ht.RefusedError(refusal(reply))
    assert watched.used == []
    assert party.ledger is not None
    assert not party.ledger.exists


def test_candidates_inside_are_answered_and_a_knob_may_be_left_out(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "used")
    client = ht.Client(watched.load, watched, space=OWN, policy=ht.Policy(space=OWN))
    asked = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=3)
    reply = respond(request(query=vote(asked), **PUBLIC).to_bytes(), inside(tmp_path, client), ROSTER)
    assert vector_of(reply, 3).tolist() == [1, 0, 0]
    assert watched.used == ["loaded", "scored"]


@pytest.mark.parametrize("high", [1.0, 2.0])
def test_of_an_adaptive_search_the_space_counts(tmp_path: Path, high: float) -> None:
    """It is what clients search, whatever the candidates are."""
    watched = Watched(tmp_path / "used")
    party = inside(tmp_path, ht.Client(watched.load, watched, space=OWN))
    query = SentPairs(Search.adaptive(3, "random"), ht.Space(x=ht.Float(0.0, high)), (0.0, 10.0), 3)
    reply = respond(request(query=query, **PUBLIC).to_bytes(), party, ROSTER)
    if high > 1:
        assert "knob 'x' must be a number from 0.0 to 1.0, but got 2.0" in refusal(reply)
        assert watched.used == []
    else:
        assert unpack(reply)[0]["kind"] != "refused"
    narrow = ht.Space(x=ht.Float(0.0, high)).candidates([{"x": 0.5}])
    assert allows(party.client, Search(), narrow)
    assert allows(party.client, Search.adaptive(3), narrow) == (high <= 1)


def test_agents_that_refine_try_points_between_the_candidates(tmp_path: Path) -> None:
    client = ht.Client(np.zeros(3), Watched(tmp_path), space=OWN)
    asked = ht.Space(x=ht.Float(0.0, 2.0)).candidates([{"x": 0.25}, {"x": 0.75}])
    for refine in (False, True):
        query = Explorers(asked, 0, RUN, 3, (), 4, 2, 10, 0.3, 1.0, (0.0, 1.0), refine)
        assert allows(client, *query.scored) == (not refine)


def test_numbers_that_no_float_holds_are_refused_in_words(tmp_path: Path) -> None:
    """Not with an error inside the client."""
    watched = Watched(tmp_path / "used")
    party = inside(tmp_path, ht.Client(watched.load, watched, space=OWN))
    good = request(query=vote(ht.Space(x=ht.Float(0.0, 1.0)).grid(x=3)), **PUBLIC).to_bytes()

    def asks(change: Any) -> str:
        header, parts = unpack(good)
        change(header["query"]["candidates"])
        return refusal(respond(pack(header, *parts), party, ROSTER))

    assert "must suit" in asks(lambda asked: asked["configs"][0].update(x=10**400))
    assert "must suit" in asks(lambda asked: asked["configs"][0].update(x=[0.5]))
    assert "must suit" in asks(lambda asked: asked["configs"][0].update(x=True))
    assert "must suit" in asks(lambda asked: asked["configs"][0].update(x="0.5"))
    assert "JSON written by Space" in asks(lambda asked: asked["space"]["x"]["attributes"].update(high=10**400))
    assert watched.used == []


def test_nested_options_are_no_options() -> None:
    raw = ht.Space(x=ht.Choice(["a"])).to_json()
    raw["x"]["attributes"]["choices"] = [["a", {"b": [1]}]]
    with pytest.warns(UserWarning, match="persistent storage"), pytest.raises(ht.SettingError, match="plain choices"):
        ht.Space.from_json(json.loads(json.dumps(raw)))


def test_in_one_process_a_client_that_refuses_scores_nothing_and_drops_out(tmp_path: Path) -> None:
    used = [Watched(tmp_path / f"used-{at}") for at in range(5)]
    clients = [ht.Client(each.load(), each, space=OWN if at == 2 else None) for at, each in enumerate(used)]
    result = ht.tune(
        clients,
        ht.Space(x=ht.Float(0.0, 2.0)).grid(x=3),
        method=ht.Vote(k=1, decode="argmax"),
        seal=Clear(dropouts=0.4),
        home=tmp_path,
        jobs=1,
        observer=ht.Silent(),
    )
    (reason,) = result.dropped.values()
    assert "knob 'x' must be a number from 0.0 to 1.0, but got 2.0" in reason
    assert [each.used for each in used] == [["loaded"] if at == 2 else ["loaded", "scored"] for at in range(5)]


def test_configs_to_train_with_are_checked_too(tmp_path: Path) -> None:
    client = ht.Client(
        np.zeros(3), Watched(tmp_path), space=OWN, policy=ht.Policy(space=ht.Space(x=ht.Float(0.0, 0.5)))
    )
    check_configs(client, [{"x": 0.5}])
    for config in ({"x": 0.7}, {"x": 0.1, "kind": "a"}):
        with pytest.raises(ht.RefusedError, match="space: "):
            check_configs(client, [{"x": 0.1}, config])


# ---- scikit-learn, through the way out ---------------------------------------------------------------

TEXTS = Pipeline([("tfidf", TfidfVectorizer()), ("clf", LogisticRegression())])
DOCUMENTS = np.array(["aaaa b", "b c", "c d", "d e"] * 10)
NUMBERS = Pipeline([("scale", StandardScaler()), ("clf", LogisticRegression())])
ROWS = np.random.default_rng(0).normal(size=(40, 2))
LABELS = np.array([0, 1] * 20)


def sklearn_client(estimator: Any, rows: Any) -> ht.Client:
    return ht.Client((rows, LABELS), ht.SklearnObjective(estimator))


def asked_of(tmp_path: Path, client: ht.Client, space: ht.Space) -> bytes:
    return respond(request(query=vote(space.grid()), **PUBLIC).to_bytes(), inside(tmp_path, client), ROSTER)


@pytest.mark.parametrize("nested", [False, True])
def test_rows_are_not_written_to_a_path_that_a_server_names(tmp_path: Path, nested: bool) -> None:
    """A pipeline with a memory keeps what it has fitted, rows included, below that path."""
    estimator, name = (Pipeline([("inner", NUMBERS)]), "inner__memory") if nested else (NUMBERS, "memory")
    place = tmp_path / "stolen"
    space = ht.Space(**{name: ht.Choice([str(place), None])})
    client = sklearn_client(estimator, ROWS)
    assert f"knob '{name}' is about the machine" in refusal(asked_of(tmp_path, client, space))
    assert not place.exists()
    check_asked(client, Search(), ht.Space(**{name.replace("memory", "clf__C"): ht.Choice([1.0])}).grid())


PATTERN = r"(a+)+$"  # takes time that doubles with every letter of a record


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tfidf__token_pattern", PATTERN),
        ("tfidf__input", "filename"),
        ("tfidf__encoding", "utf-7"),
        ("tfidf__tokenizer", None),
        ("tfidf__stop_words", "/etc/passwd"),
        ("tfidf__analyzer", PATTERN),
        ("tfidf", "passthrough"),
        ("clf", None),
        ("steps", None),
        ("clf__n_jobs", 8),
        ("clf__verbose", 5),
        ("verbose", True),
        ("clf__class_weight", "everything"),
    ],
)
def test_what_reaches_beyond_a_fit_is_no_knob(tmp_path: Path, name: str, value: Any) -> None:
    client = sklearn_client(TEXTS, DOCUMENTS)
    reason = refusal(asked_of(tmp_path, client, ht.Space(**{name: ht.Choice([value])})))
    assert reason.startswith(f"knob '{name}' ")


def test_a_value_that_the_candidates_space_does_not_name_is_looked_at_too(tmp_path: Path) -> None:
    """Candidates may have values outside their space; so a space that looks harmless is no cover."""
    space = ht.Space(tfidf__analyzer=ht.Choice(["word"]))
    hidden = space.candidates([{"tfidf__analyzer": "word"}, {"tfidf__analyzer": PATTERN}])
    party = inside(tmp_path, sklearn_client(TEXTS, DOCUMENTS))
    assert "knob 'tfidf__analyzer' must be" in refusal(
        respond(request(query=vote(hidden), **PUBLIC).to_bytes(), party, ROSTER)
    )


def test_ordinary_knobs_of_a_pipeline_are_answered(tmp_path: Path) -> None:
    space = ht.Space(tfidf__analyzer=ht.Choice(["word", "char_wb"]), tfidf__min_df=ht.Choice([1, 0.01]))
    reply = asked_of(tmp_path, sklearn_client(TEXTS, DOCUMENTS), space)
    assert vector_of(reply, 4).sum() == 1


def test_a_space_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="space must be a Space, but got a dict"):
        ht.Client(np.zeros(3), Watched(tmp_path), space={"x": 1})  # type: ignore[arg-type]
    assert replace(ht.Client(np.zeros(3), Watched(tmp_path), space=OWN), data=np.zeros(2)).space == OWN
