from __future__ import annotations

import json
from typing import Any

import pytest

import hushtune as ht
from hushtune.core.errors import WireError
from hushtune.seals.base import SEAL_CLASSES
from hushtune.seals.registry import SEALS, default_seal, expected, seal_from_json

ALL = [kind(corrupt=0.2) for kind in SEALS]


@pytest.mark.parametrize("seal", ALL, ids=lambda seal: seal.name)
def test_a_seal_survives_the_wire(seal: ht.Seal) -> None:
    assert seal_from_json(json.loads(json.dumps(seal.to_json()))) == seal


def test_every_seal_has_a_name_of_its_own_and_the_default_hides_single_contributions() -> None:
    assert len({seal.name for seal in ALL}) == len(ALL)
    assert not default_seal().shows_each
    assert default_seal().insecure is None


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, r"seal must be one of \['clear', 'curator', 'masked', .*\], but got None"),
        ({"name": "Clear"}, "but got 'Clear'"),
        ({"name": ["clear"]}, "but got"),
        (
            {"name": "clear", "degree": 3},
            r"seal 'clear' has no field 'degree'; its fields are \['dropouts', 'corrupt'\]",
        ),
        ({"name": "clear", "name_": 3}, "has no field 'name_'"),
        ({"name": "masked", "dropouts": "0.1"}, "dropouts='0.1'"),
    ],
)
def test_another_seal_or_field_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        seal_from_json(raw)


@pytest.mark.parametrize("kind", [None, "vector", 3, ["request"], "x" * 1000])
def test_a_message_of_no_seal_is_refused_in_a_short_line(kind: Any) -> None:
    with pytest.raises(WireError, match="no seal has messages of kind") as caught:
        expected({"kind": kind}, [], b"message")
    assert len(str(caught.value)) < 120


def test_a_kind_of_hushtunes_own_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Impostor(ht.Masked):
        """Another seal's messages, under another name."""

        name = "impostor"

    monkeypatch.setattr(SEAL_CLASSES, "_known", {"impostor": Impostor, **SEAL_CLASSES.known})
    found, _ = expected({"kind": "masked", "run": "r", "trip": "keys", "round": 0}, [b""], b"message")
    assert found is ht.Masked


def test_a_message_leads_to_the_seal_whose_kind_it_is() -> None:
    for seal in (ht.Masked, ht.Clear, ht.Threshold):
        header = {"kind": seal.kind, "run": "r", "trip": "keys", "round": 0}
        found, what = expected(header, [b""], b"message")
        assert found.kind == seal.kind
        assert what.run == "r"
