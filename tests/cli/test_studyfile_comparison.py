"""Studies with a table [compare]."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Hushtune, hushtune  # noqa: F401 (a fixture)
from tests.cli.test_studyfile import GOOD, write

import hushtune as ht
from hushtune.cli.studyfile import read, read_comparison

LISTED = """
[compare]
methods = [{ name = "vote", k = 2 }, { name = "noisy-max" }]
seals = ["masked", { name = "curator" }]
epsilons = [5.0, "exact"]
draws = 2
"""


def compared(tmp_path: Path, table: str = LISTED) -> Path:
    return write(tmp_path, GOOD + table)


def test_a_comparison_is_read(tmp_path: Path) -> None:
    study = read_comparison(compared(tmp_path))
    assert study.methods == [ht.Vote(2), ht.NoisyMax()]
    assert study.seals == [ht.Masked(), ht.Curator()]
    assert study.privacies == [ht.Privacy(5.0), None]
    assert study.simulation.draws == 2
    assert study.simulation.reference is not None


def test_what_it_leaves_out_is_the_studys_own(tmp_path: Path) -> None:
    study = read_comparison(compared(tmp_path, "[compare]"))
    assert study.methods == [read(write(tmp_path, GOOD)).study.method]
    assert study.seals == [ht.Masked()]
    assert study.privacies == [ht.Privacy(1.0)]


def test_a_function_of_ones_own_gives_the_reference(tmp_path: Path) -> None:
    (tmp_path / "own_reference.py").write_text(
        "import hushtune as ht\nimport numpy as np\n"
        "@ht.objective\ndef one(config, data):\n    return 0.0\n"
        "def make():\n    return [ht.Client((np.zeros((2, 1)), np.zeros(2)), one) for _ in range(3)]\n"
        "def whole():\n    return ht.Client((np.zeros((2, 1)), np.zeros(2)), one)\n"
    )
    text = """
    [clients]
    factory = "own_reference:make"
    [space]
    x = { type = "float", low = 0.0, high = 1.0 }
    [candidates]
    grid = { x = 3 }
    [simulation]
    reference = "own_reference:whole"
    [compare]
    methods = [{ name = "vote", k = 1 }]
    """
    study = read_comparison(write(tmp_path, text))
    assert study.simulation.reference is not None
    with pytest.raises(ht.SettingError, match=r"\[compare\] reference must be a Client"):
        read_comparison(write(tmp_path, text.replace("own_reference:whole", "own_reference:make")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{ name = "noisy-max" }', '"noisy-max"', "a method must be a table with its name"),
        ('{ name = "noisy-max" }', '{ name = "noisy" }', "[compare] method must be one of"),
        ('"masked"', '"wax"', "[compare] seal must be one of"),
        ('[5.0, "exact"]', "[-1.0]", "[compare] `0 < epsilon < inf` must hold"),
        ('[5.0, "exact"]', '["none"]', "[compare] `0 < epsilon < inf` must hold, but got epsilon='none'"),
        ('[5.0, "exact"]', "5.0", "[compare] epsilons must be a list"),
        ('[5.0, "exact"]', "[]", "[compare] epsilons must be a list with at least one entry"),
        ("draws = 2", "draws = 0", "[compare] `1 <= draws <= 1000000` must hold"),
        ("draws = 2", "draw = 2", "[compare] has an unknown key 'draw'"),
        ("draws = 2", "draws = 2\n[ledger]\npath = 'x'", "charges no ledger"),
    ],
)
def test_bad_comparisons_name_table_constraint_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in LISTED
    with pytest.raises(ht.SettingError) as caught:
        read_comparison(compared(tmp_path, LISTED.replace(old, new, 1)))
    assert message in str(caught.value)


def test_each_command_says_which_studies_it_takes(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="needs a table \\[compare\\]"):
        read_comparison(write(tmp_path, GOOD))
    text = GOOD.replace("[method]", "[unused]")
    only = text[: text.index("[unused]")] + LISTED
    with pytest.raises(ht.SettingError, match="`hushtune compare` takes it"):
        read(write(tmp_path, only))


def test_the_command_prints_a_table_and_writes_a_page(hushtune: Hushtune, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "compared"
    done = hushtune("compare", compared(tmp_path), "--out", out, "--quiet")
    assert done.returncode == 0, done.stderr
    for words in ("SIMULATION", "the best candidate scores", "noisy-max", "Refused:", str(out / "comparison.html")):
        assert words in done.stdout
    assert (out / "comparison.html").exists()
    again = hushtune("compare", compared(tmp_path), "--out", out, "--quiet", "--json")
    assert '"rows": [' in again.stdout
    assert hushtune("report", out).stdout.strip() == str(out / "comparison.html")
    assert hushtune("compare", tmp_path / "none.toml", "--out", out).returncode == 2
