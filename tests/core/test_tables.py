from __future__ import annotations

import tomllib

import pytest

import hushtune as ht
from hushtune.core.tables import space_from_table

TABLE = """
C = { type = "float", low = 0.01, high = 100, log = true }
degree = { type = "int", low = 2, high = 4 }
gamma = { type = "choice", choices = ["scale", 0.1] }
"""


def test_a_space_as_people_write_it() -> None:
    assert space_from_table(tomllib.loads(TABLE)) == ht.Space(
        C=ht.Float(0.01, 100, log=True), degree=ht.Int(2, 4), gamma=ht.Choice(["scale", 0.1])
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('x = { type = "integer", low = 1, high = 2 }', "'x' needs type = one of"),
        ("x = 3", "'x' needs type = one of"),
        ('x = { type = "int", low = 1 }', "needs the keys"),
        ('x = { type = "int", low = 1, high = 2, loq = true }', "needs the keys"),
        ('x = { type = "int", low = 1.5, high = 2 }', "must hold for an integer"),
        ('x = { type = "float", low = 1, high = inf }', "must hold, but got high=inf"),
        ('x = { type = "float", low = 1, high = 2, log = "no" }', "log must be a bool"),
        ('x = { type = "choice", choices = [nan] }', "plain choices"),
        ("", "at least one knob"),
    ],
)
def test_what_is_no_space_is_refused(line: str, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        space_from_table(tomllib.loads(line))
