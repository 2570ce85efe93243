from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import hushtune as ht
from hushtune.cli.studyfile import read

GOOD = """
[data]
name = "digits"
clients = 4
split = "iid"
[space]
C = { type = "float", low = 0.1, high = 10.0, log = true }
kernel = { type = "choice", choices = ["rbf", "linear"] }
degree = { type = "int", low = 2, high = 4 }
[candidates]
grid = { C = 2 }
[objective]
estimator = "sklearn.svm.SVC"
parameters = { gamma = 0.1 }
[method]
name = "vote"
k = 2
[privacy]
epsilon = 1.0
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_a_study_becomes_the_arguments_of_tune(tmp_path: Path) -> None:
    found = read(write(tmp_path, GOOD + "[simulation]\nseed = 3\n[seal]\nname = 'clear'\ndropouts = 0.2\n"))
    study = found.study
    assert len(found.clients) == 4
    assert len(study.candidates) == 12
    assert study.method == ht.Vote(2)
    assert study.privacy == ht.Privacy(1.0)
    assert study.seal == ht.Clear(dropouts=0.2)
    assert found.simulation is not None
    assert found.simulation.seed == 3
    assert sum(len(client.data) for client in found.clients) == 1438


def test_a_study_may_have_clients_search_a_space(tmp_path: Path) -> None:
    text = GOOD.replace("[candidates]\ngrid = { C = 2 }\n", "").replace('name = "vote"\nk = 2', 'name = "surface"')
    found = read(write(tmp_path, text))
    study = found.study
    assert isinstance(study.candidates, ht.Space)
    assert study.method == ht.Surface()
    assert study.search is None
    found = read(write(tmp_path, text + "[search]\ntrials = 7\nsampler = 'random'\n"))
    study = found.study
    assert study.search == ht.Search.adaptive(7, "random")
    found = read(write(tmp_path, text + "[candidates]\nsample = 9\n[search]\nseed = 4\n"))
    study = found.study
    assert study.search == ht.Search(4)
    assert isinstance(study.candidates, ht.Candidates)


def test_own_clients_come_from_a_factory_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "my_hospitals.py").write_text(
        textwrap.dedent("""
        import numpy as np
        import hushtune as ht

        @ht.objective
        def loss(config, data):
            return config["x"]

        def clients():
            return [ht.Client((np.zeros((2, 1)), np.zeros(2)), loss, name=f"h{i}") for i in range(3)]
    """)
    )
    text = """
    [clients]
    factory = "my_hospitals:clients"
    [space]
    x = { type = "float", low = 0, high = 1 }
    [candidates]
    sample = 5
    [method]
    name = "vote"
    k = 1
    [ledger]
    path = "ledger.db"
    """
    study = read(write(tmp_path, text))
    assert [client.name for client in study.clients] == ["h0", "h1", "h2"]
    assert study.ledger is not None
    assert study.ledger.path == tmp_path / "ledger.db"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 1.0", "epsilon = 0", "[privacy] `0 < epsilon < inf` must hold, but got epsilon=0"),
        ("epsilon = 1.0", "epsilon = 1.0\ndelta = 1.5", "[privacy] `0 <= delta < 1` must hold, but got delta=1.5"),
        ("epsilon = 1.0", "epsilonn = 1.0", "[privacy] has an unknown key 'epsilonn'"),
        ("[privacy]", "[privcy]", "unknown table [privcy]"),
        ("k = 2", "k = 0", "[method] `k >= 1` must hold for an integer, but got k=0"),
        ("k = 2", "k = 13", "[method] `1 <= k <= candidates` must hold, but got k=13, candidates=12"),
        ("k = 2", "kk = 2", "[method] 'vote' got the unknown keys ['kk']"),
        (
            'name = "vote"',
            'name = "poll"',
            "method must be one of ['combine', 'noisy-max', 'propose-test', 'surface', 'thompson', 'vote']",
        ),
        ("grid = { C = 2 }", "list = []", "[candidates] candidates must hold at least one config"),
        ("grid = { C = 2 }", "grid = { C = 2 }\nsample = 4", "exactly one of grid, sample, list"),
        ("grid = { C = 2 }", "grid = { D = 2 }", "[candidates] grid got 'D', which is not a knob"),
        ("grid = { C = 2 }", 'grid = { C = "two" }', "[candidates]"),
        ("grid = { C = 2 }", 'sample = "two"', "[candidates]"),
        ('type = "int"', 'type = "integer"', "[space] 'degree' needs type"),
        ("low = 2, high = 4", "low = 5, high = 4", "[space] 'degree'"),
        ("low = 2, high = 4", "low = 2", "[space] 'degree'"),
        ('"sklearn.svm.SVC"', '"sklearn.svm.SVX"', "[objective] 'sklearn.svm.SVX' cannot be imported"),
        ('"sklearn.svm.SVC"', '"SVC"', "[objective] estimator must be a text such as 'module.name', but got 'SVC'"),
        (
            "{ gamma = 0.1 }",
            "{ gama = 0.1 }",
            "[objective] parameters has an unknown key 'gama'; SVC has ['C', 'break_ties', ",
        ),
        ("{ gamma = 0.1 }", "5", "[objective] parameters must be a table, such as { C = 1.0 }, but got 5"),
        ('"sklearn.svm.SVC"', '"sklearn.svm"', "such as 'sklearn.svm.SVC', but 'sklearn.svm' is a module"),
        ('"sklearn.svm.SVC"', '"pathlib.Path"', "but 'pathlib.Path' is a class of another kind"),
        ("grid = { C = 2 }", "sample = -5", "[candidates] `1 <= sample <= 1048576` must hold for an integer, but got"),
        ('name = "vote"\n', "", "[method] needs the key 'name', but got ['k']"),
        (
            'name = "vote"\nk = 2',
            'name = "vote"\nopens = "winner"',
            "[method] opens='winner' needs somebody who keeps the sums secret: give seal=Curator() or seal=Quorum()",
        ),
        ("[privacy]", "[seal]\n[privacy]", "[seal] needs the key 'name', but got []"),
        ('name = "digits"', 'name = "mnist-huge"', "[data] name must be one of"),
        ("clients = 4", "clients = 0", "[data]"),
        ("clients = 4", "", "[data] needs the key 'clients'"),
        ('split = "iid"', 'split = "dirichlet:x"', "[data] split 'dirichlet:NUMBER' needs a number"),
        ('split = "iid"', 'split = "sorted"', "[data] split must be"),
        (
            'name = "vote"\nk = 2',
            'name = "surface"\nkinds = 1',
            "keys are ['kind', 'send', 'alpha', 'model', 'losses',",
        ),
        ('name = "vote"\nk = 2', 'name = "surface"\nkind = "sgm"', "[method] surface 'sgm' needs every client's pairs"),
        ("[privacy]", "[search]\ntrials = 3\n[privacy]", "[method] method 'vote' does not take Search.adaptive()"),
        ("[privacy]", "[search]\ntrials = 0\n[privacy]", "[search] `1 <= trials"),
        ('split = "iid"', "test = 2", "[data] `0 <= test < 1`"),
        ("[candidates]\ngrid = { C = 2 }", "", "[method] candidates must be a finite public list"),
        ("[objective]", "[clients]\nfactory = 'x:y'\n[objective]", "either [data]"),
        ("[privacy]", "[privacy]\n[privacy]", "must be TOML"),
        ("[privacy]", "[simulation]\nseed = -1\n[privacy]", "[simulation] `seed >= 0`"),
        ("[privacy]", "[seal]\nname = 'wax'\n[privacy]", "[seal] seal must be one of"),
        ("[privacy]", "[seal]\nname = 'clear'\ndropouts = 2\n[privacy]", "dropouts=2"),
        ("[privacy]", "[search]\nseed = -4\n[privacy]", "[search] `0 <= seed"),
        ("[privacy]", "[ledger]\n[privacy]", "[ledger] needs the key 'path'"),
    ],
)
def test_bad_studies_name_table_constraint_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ht.SettingError) as caught:
        read(write(tmp_path, GOOD.replace(old, new, 1)))
    assert message in str(caught.value)


def test_what_is_no_estimator_is_not_called(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        GOOD.replace("sklearn.svm.SVC", "os.system").replace("gamma = 0.1", f"command = 'touch {tmp_path}/called'")
    )
    with pytest.raises(ht.SettingError, match="but 'os.system' is a builtin function or method"):
        read(tmp_path / "study.toml")
    assert not (tmp_path / "called").exists()


def test_files_that_are_no_study(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="does not exist"):
        read(tmp_path / "none.toml")
    with pytest.raises(ht.SettingError, match="cannot be read: Is a directory; give a study file"):
        read(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ht.SettingError, match="must be TOML, but it is no text: give the study file$"):
        read(tmp_path / "x.toml")
