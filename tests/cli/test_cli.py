from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Hushtune
from tests.cli.test_studyfile import GOOD

STUDY = GOOD.replace("clients = 4", "clients = 12")

PLAN = ["plan", "--clients", "10", "--candidates", "20"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.mark.long
def test_a_real_run_its_ledgers_and_its_verification(
    hushtune: Hushtune, study: Path, tmp_path: Path, home: Path
) -> None:
    out = tmp_path / "runs" / "first"
    first = hushtune("run", study, "--out", out)
    assert first.returncode == 0, first.stderr
    for part in ("chosen config:", "Privacy statement", "Guarantee: (1, 1e-05)", str(out / "result.json")):
        assert part in first.stdout
    assert "Simulation figures" not in first.stdout
    assert "<!doctype html>" in (out / "report.html").read_text()
    (out / "report.html").unlink()
    assert hushtune("report", out).stdout.strip() == str(out / "report.html")
    assert (out / "report.html").exists()
    verified = hushtune("verify", out, "--json")
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["holds"]
    told = hushtune("verify", out).stdout.splitlines()
    assert told[-1] == f"all {sum(line.startswith('ok ') for line in told)} claims hold"

    shown = json.loads(hushtune("ledger", "show", "--json").stdout)["ledgers"]
    assert len(shown) == 13
    assert all(len(ledger["charges"]) == 1 for ledger in shown)

    again = hushtune("run", study, "--out", tmp_path / "second")
    assert again.returncode == 2
    assert again.stdout == ""
    (line,) = again.stderr.splitlines()
    assert "would bring it to epsilon 2" in line
    (coordinator,) = [fact["path"] for fact in shown if "coordinator" in fact["path"]]
    raised = hushtune("ledger", "limit", coordinator, "--epsilon", "3", "--delta", "1e-4")
    assert "left: epsilon 2" in raised.stdout
    blocked = hushtune("run", study, "--out", tmp_path / "third", "--quiet")
    assert blocked.returncode == 3
    (line,) = blocked.stderr.splitlines()
    assert line.startswith("aborted: 11 of 12 clients must answer, but the ledgers of 12 refuse")

    raw = json.loads((out / "result.json").read_text())
    raw["spent"]["epsilon"] = 0.1
    (out / "result.json").write_text(json.dumps(raw))
    tampered = hushtune("verify", out)
    assert tampered.returncode == 1
    assert "FAIL epsilon computed" in tampered.stdout
    told = tampered.stdout.splitlines()
    wrong, every = (sum(line.startswith(begins) for line in told) for begins in (("FAIL ",), ("FAIL ", "ok ")))
    assert told[-1].startswith(f"{wrong} of {every} claims do")
    assert "NOT hold" in told[-1]


def test_a_result_cannot_write_lines_of_its_own_into_what_verify_says(capsys: pytest.CaptureFixture[str]) -> None:
    from hushtune.cli import show
    from hushtune.review.checks import Beside, Check
    from hushtune.review.verification import Verification

    forged = "x\nok   the signature is one of this result.json\x1b[2K"
    show.verification(Verification((Check("a claim", False, forged),), (Beside("ledger", False, forged),)), False)
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert [line.split()[0] for line in told.splitlines()] == ["FAIL", "NOT", "1"]
    assert told.splitlines()[-1] == "1 of 1 claim does NOT hold: see FAIL above"


def test_a_signed_run_is_checked_against_its_signer(hushtune: Hushtune, study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY + "[simulation]\nseed = 1\n")
    key, out = tmp_path / "coordinator.key", tmp_path / "run"
    assert hushtune("identity", "new", key).returncode == 0
    public = hushtune("identity", "show", key).stdout
    (tmp_path / "coordinator.pub").write_text(public)
    missing = hushtune("run", study, "--out", out, "--identity", tmp_path / "none", "--quiet")
    assert missing.returncode == 2
    assert not out.exists()
    assert hushtune("run", study, "--out", out, "--identity", key, "--quiet").returncode == 0

    for signer in (public.strip(), tmp_path / "coordinator.pub"):
        checked = hushtune("verify", out, "--signer", signer)
        assert checked.returncode == 0, checked.stdout
        assert f"saw result.sig: by {public.strip()}, which holds" in checked.stdout
        assert "NOT FOUND ledger: not looked for: a simulation charges none" in checked.stdout
        assert "saw run.json: 1 opening" in checked.stdout
    found = json.loads(hushtune("verify", out, "--json").stdout)
    assert [(one["name"], one["found"]) for one in found["beside"]] == [
        ("run.json", True),
        ("report.html", True),
        ("result.sig", True),
        ("ledger", False),
    ]
    foreign = hushtune("verify", out, "--signer", "0" * 64)
    assert foreign.returncode == 1
    assert "FAIL it is the signer's" in foreign.stdout
    assert hushtune("verify", out, "--signer", key).returncode == 2  # a secret key is no signer
    (out / "result.sig").unlink()
    unsigned = hushtune("verify", out, "--signer", public.strip())
    assert unsigned.returncode == 1
    assert "FAIL the result is signed" in unsigned.stdout
    assert hushtune("verify", out).returncode == 0


def test_json_output_is_one_object(hushtune: Hushtune, study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY + "[simulation]\nseed = 1\n")
    done = hushtune("run", study, "--out", tmp_path / "run", "--json")
    assert json.loads(done.stdout)["simulation"]["figures"]["opt"] > 0.9
    finished = hushtune("run", study, "--out", tmp_path / "run")
    assert finished.returncode == 2
    assert "holds a finished run" in finished.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("epsilon = 1.0", "epsilon = -3", "epsilon=-3"), ("k = 2", "k = 99", "k=99, candidates=12")],
)
def test_bad_input_is_one_line_exit_2_and_no_ledger(
    hushtune: Hushtune, study: Path, tmp_path: Path, home: Path, old: str, new: str, message: str
) -> None:
    study.write_text(STUDY.replace(old, new))
    failed = hushtune("run", study, "--out", tmp_path / "run")
    assert failed.returncode == 2
    (line,) = failed.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not list(home.glob("**/*.db"))
    assert not (tmp_path / "run").exists()


def test_what_an_objective_prints_stays_out_of_the_output(hushtune: Hushtune, tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "import numpy as np, hushtune as ht, os\n"
        "@ht.objective\n"
        "def loss(config, data):\n"
        "    print('chatter'); os.system('echo more chatter')\n"
        "    return config['x']\n"
        "def clients():\n"
        "    return [ht.Client((np.zeros((2, 1)), np.zeros(2)), loss) for i in range(3)]\n"
        "def broken():\n"
        "    raise RuntimeError('no data today')\n"
    )
    text = (
        "[clients]\nfactory='chatty:clients'\n[space]\nx={type='float',low=0,high=1}\n"
        "[candidates]\nsample=4\n[method]\nname='vote'\nk=1\n"
    )
    (tmp_path / "study.toml").write_text(text)
    done = hushtune("run", tmp_path / "study.toml", "--out", tmp_path / "run", "--json")
    assert json.loads(done.stdout)["privacy"] is None
    (tmp_path / "study.toml").write_text(text.replace("chatty:clients", "chatty:broken"))
    failed = hushtune("run", tmp_path / "study.toml", "--out", tmp_path / "other")
    assert failed.returncode == 2
    assert failed.stderr.strip() == "error: [clients] chatty:broken failed: RuntimeError: no data today"


def test_an_out_that_is_a_file_is_one_line(hushtune: Hushtune, study: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = hushtune("run", study, "--out", tmp_path / "file")
    assert failed.returncode == 2
    assert len(failed.stderr.splitlines()) == 1


def test_ledger_limit_makes_and_changes_and_refuses(hushtune: Hushtune, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    made = hushtune("ledger", "limit", path, "--epsilon", "2", "--delta", "1e-5", "--rule", "renyi")
    assert made.returncode == 0
    shown = hushtune("ledger", "show", path)
    assert "rule renyi" in shown.stdout
    assert "limit epsilon 2" in shown.stdout
    fixed = hushtune("ledger", "limit", path, "--epsilon", "2", "--delta", "1e-5", "--rule", "sums")
    assert fixed.returncode == 2
    assert "fixed when it was made" in fixed.stderr
    for bad in (["--epsilon", "0"], ["--epsilon", "1", "--rule", "x"]):
        refused = hushtune("ledger", "limit", tmp_path / "new.db", "--delta", "1e-5", *bad)
        assert refused.returncode == 2
        assert not (tmp_path / "new.db").exists()
    path.write_bytes(b"foreign" * 1000)
    assert hushtune("ledger", "show", path).returncode == 2


def test_a_limit_and_a_plan_may_have_delta_0(hushtune: Hushtune, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    limit = ("ledger", "limit", path, "--epsilon", "2", "--delta", "0")
    refused = hushtune(*limit, "--rule", "renyi")
    assert refused.returncode == 2
    assert "rule 'renyi' needs a limit with `delta > 0`, but got delta=0" in refused.stderr
    assert not path.exists()
    assert "with limit epsilon 2, delta 0" in hushtune(*limit).stdout
    assert (
        "limit epsilon 2, delta 0; spent epsilon 0, delta 0; left epsilon 2, delta 0"
        in hushtune("ledger", "show", path).stdout
    )
    plan = ("plan", "--clients", "30", "--candidates", "9", "--epsilon", "1", "--delta", "0", "--ledger", path)
    pure = json.loads(hushtune(*plan, "--method", "noisy-max", "--repetitions", "10", "--json").stdout)
    assert (pure["charge"]["epsilon"], pure["charge"]["delta"]) == (1.0, 0.0)
    assert pure["ledger"]["after"] == {"epsilon": 1.0, "delta": 0.0}
    sums = hushtune(*plan, "--method", "surface")
    assert (sums.returncode, sums.stdout) == (2, "")
    assert "error: at delta=0 all that is opened must be pure, but got a sum under " in sums.stderr


def test_an_owner_goes_on_after_a_loss_by_the_command_that_the_refusal_names(
    hushtune: Hushtune, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    limit = ("ledger", "limit", path, "--delta", "1e-5", "--epsilon")
    assert hushtune(*limit, "2").returncode == 0
    path.unlink()
    for command in (("ledger", "show", path), (*limit, "2")):
        refused = hushtune(*command)
        assert refused.returncode == 2
        assert len(refused.stderr.splitlines()) == 1
        assert "it is gone, and with it the record of what was spent; put back the newest file" in refused.stderr
        assert f"hushtune ledger limit {path} --epsilon E --delta D --accept-loss" in refused.stderr
    assert not path.exists()
    assert "say --unit client or --unit record" in hushtune(*limit, "0.5", "--accept-loss").stderr
    assert "per record" in hushtune(*limit, "0.5", "--accept-loss", "--unit", "record").stdout
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE limits SET epsilon=2")
        db.commit()
    assert "altered since it was last used" in hushtune("ledger", "show", path).stderr
    assert (
        "per record, neighbours 'replace-one', is now epsilon 0.25" in hushtune(*limit, "0.25", "--accept-loss").stdout
    )
    assert hushtune("ledger", "show", path).returncode == 0


def test_a_ledger_that_is_gone_is_named_among_the_others(
    hushtune: Hushtune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHTUNE_HOME", str(tmp_path))
    for name in ("a", "b", "c"):
        hushtune("ledger", "limit", tmp_path / name / "ledger.db", "--epsilon", "2", "--delta", "1e-5")
    (tmp_path / "b" / "ledger.db").unlink()
    shown = hushtune("ledger", "show")
    assert shown.returncode == 2
    assert shown.stderr == "error: 1 of 3 ledgers cannot be used; see the list\n"
    assert [line for line in shown.stdout.splitlines() if not line.startswith(" ")] == [
        str(tmp_path / name / "ledger.db") for name in ("a", "b", "c")
    ]
    assert shown.stdout.count("limit epsilon 2") == 2
    assert shown.stdout.count("REFUSED: ") == 1
    listed = json.loads(hushtune("ledger", "show", "--json").stdout)["ledgers"]
    assert ["refused" in ledger for ledger in listed] == [False, True, False]


def test_a_roster_is_never_overwritten(hushtune: Hushtune, tmp_path: Path) -> None:
    path = tmp_path / "roster.toml"
    made = hushtune("identity", "roster", path, f"a={'0' * 64}")
    assert made.stdout.startswith(f"made {path} with 1 client; ")
    before = path.read_text()
    refused = hushtune("identity", "roster", path, f"a={'0' * 64}")
    assert refused.returncode == 2
    assert "give another path, or remove the file if nobody has it yet" in refused.stderr
    assert path.read_text() == before


def test_help_and_version(hushtune: Hushtune) -> None:
    assert "Exit codes: 0 done" in hushtune("--help").stdout
    assert "The study file (TOML)." in hushtune("run", "--help").stdout
    assert hushtune("--version").stdout.startswith("hushtune ")
    assert hushtune().returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], "No such command 'foo'; see `hushtune --help`"),
        (["bench"], "No such command 'bench'; see `hushtune --help`"),  # `python -m experiments`, from a clone
        (["plan"], "Missing option '--clients'; see `hushtune plan --help`"),
        (["ledger", "limit", "x", "--epsilon", "a"], "'a' is not a valid float; see `hushtune ledger limit --help`"),
        (["run", "nosuch.toml", "--out", "x"], "study file nosuch.toml does not exist"),
        (["ledger", "limit", "/proc/l", "--epsilon", "1", "--delta", "1e-5"], "error: /proc/l cannot be made: "),
        (["identity", "new", "/proc/k"], "error: /proc/k cannot be used: No such file or directory"),
        (["identity", "roster", ".", f"a={'0' * 64}"], ". exists already, and a roster is never overwritten"),
        (["identity", "roster", "/proc/r", f"a={'0' * 64}"], "error: /proc/r cannot be used: "),
        (["run", "x.toml", "--out", ""], "'--out': must name a folder, but got ''; see `hushtune run --help`"),
        (["compare", "x.toml", "--out", ""], "'--out': must name a folder, but got ''; see `hushtune compare"),
        ([*PLAN, "--assume", "good"], "--assume must be NAME=VALUE, such as good=3, but got 'good'"),
        ([*PLAN, "--set", "k"], "--set must be NAME=VALUE, such as k=3, but got 'k'"),
        ([*PLAN, "--set", "name=vote"], "--set cannot give 'name', which has an option of its own: use --method"),
        (
            [*PLAN, "--voters", "5", "--set", "voters=4"],
            "--set cannot give 'voters', which has an option of its own: use --voters",
        ),
        (
            ["identity", "roster", "x", "a=00"],
            "with the 64 hex digits that `hushtune identity show` prints, but got 'a=00'",
        ),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(hushtune: Hushtune, arguments: list[str], message: str) -> None:
    failed = hushtune(*arguments)
    assert (failed.returncode, failed.stdout) == (2, "")
    (line,) = failed.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time, numpy as np, hushtune as ht, pathlib\n"
        "@ht.objective\n"
        "def loss(config, data):\n"
        "    pathlib.Path(__file__).with_name('started').touch()\n"
        "    time.sleep(30)\n"
        "def clients():\n"
        "    return [ht.Client((np.zeros((2, 1)), np.zeros(2)), loss) for i in range(3)]\n"
    )
    (tmp_path / "study.toml").write_text(
        "[clients]\nfactory='slow:clients'\n[space]\nx={type='float',low=0,high=1}\n"
        "[candidates]\nsample=4\n[method]\nname='vote'\nk=1\n"
    )
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # background jobs ignore it
    program = f"{heed}; from hushtune.cli import main; main()"
    command = [sys.executable, "-c", program, "run", str(tmp_path / "study.toml")]
    child = subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        pass
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert sum("the same command resumes" in line for line in errors.splitlines()) == 1


def test_plan_says_what_to_expect_and_touches_nothing(hushtune: Hushtune, tmp_path: Path, home: Path) -> None:
    settings = ("plan", "--clients", "10", "--candidates", "30", "--repetitions", "20")
    shown = hushtune(*settings, "--set", "k=3", "--set", "decode=argmax")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("HOPELESS")
    assert shown.stdout.splitlines()[1].startswith("With 10 clients at epsilon 1 nothing fits: for odds of 90% seal ")
    for part in (
        "Form: the noisy sum is opened, its largest entry is taken (decode=argmax); 3 votes per ballot (k = 3)",
        "Noise: standard deviation",
        "Theorem V.1",
        "unit 'record'",
        "Traffic of a client",
        "The run alone costs epsilon",
    ):
        assert part in shown.stdout, part
    record = json.loads(hushtune(*settings, "--unit", "record", "--voters", "50", "--set", "k=3", "--json").stdout)
    assert set(record) >= {"sigma", "k", "bound", "success"}
    assert record["success"] > 0.9
    assert not home.exists() or not any(home.iterdir())
    bad = hushtune(*settings, "--voters", "5")
    assert bad.returncode == 2
    assert bad.stderr.splitlines() == [
        "error: voters=5 needs privacy with unit='record': for unit='client' each client has one voter"
    ]


def test_plan_says_what_a_winner_alone_takes(hushtune: Hushtune, home: Path) -> None:
    given = ("plan", "--clients", "30", "--candidates", "30", "--repetitions", "20", "--set", "opens=winner")
    given = (*given, "--set", "ballot=top")
    shown = hushtune(*given, "--seal", "curator", "--delta", "0")
    assert shown.returncode == 0, shown.stderr
    for part in (
        "Form: only the winner is opened; 6 votes per ballot (k = 6)",
        "Noise: coins of scale 2 on each",
        "delta 0 per client",
    ):
        assert part in shown.stdout, part
    assert json.loads(hushtune(*given, "--json").stdout)["seal"]["name"] == "curator"  # what such a method takes
    refused = hushtune(*given, "--seal", "masked")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "opens='winner' needs somebody who keeps the sums secret" in refused.stderr


def test_plan_says_whether_agents_hear_each_other(hushtune: Hushtune, home: Path) -> None:
    settings = ("plan", "--method", "thompson", "--clients", "40", "--candidates", "20", "--neighbours", "zero-out")
    shown = hushtune(*settings, "--epsilon", "6", "--set", "rounds=6")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("Likely to help")
    for part in ("6 openings in 30 iterations", "Agents hear each other", "rate 0.25", "by Rényi divergences epsilon"):
        assert part in shown.stdout, part
    assert not home.exists() or not any(home.iterdir())
    bad = hushtune(*settings, "--set", "k=3")
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: 'thompson' got the unknown keys ['k']; keys are ['iterations', ")


def test_split_shows_who_holds_what(hushtune: Hushtune, tmp_path: Path) -> None:
    found = hushtune(
        "split", "digits", "--how", "dirichlet:1", "--clients", "5", "--plot", tmp_path / "who.svg", "--json"
    )
    assert found.returncode == 0, found.stderr
    assert sum(row["rows"] for row in json.loads(found.stdout)["rows"]) == 1438
    assert (tmp_path / "who.svg").read_text().startswith("<svg")
    for arguments, message in (
        (["--how", "iid", "--clients", "5", "--seed", "-1"], "seed=-1"),
        (["--how", "iid:", "--clients", "5"], "split must be"),
        (["--how", "iid", "--clients", "0"], "clients=0"),
    ):
        refused = hushtune("split", "digits", *arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert message in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["propose-test", "--voters", "50", "--set", "stop=filter", "--set", "epsilon0=0.1"],
        ["noisy-max", "--voters", "30"],
    ],
    ids=["propose-test", "noisy-max"],
)
def test_plan_says_what_a_curators_tests_can_tell(hushtune: Hushtune, arguments: list[str]) -> None:
    given = [
        "plan",
        "--clients",
        "1",
        "--candidates",
        "20",
        "--epsilon",
        "1",
        "--unit",
        "record",
        "--method",
        *arguments,
    ]
    words = hushtune(*given, "--repetitions", "20").stdout
    assert "One test has epsilon" in words
    assert ("Simulated runs make" in words) == ("propose-test" in arguments)
    found = json.loads(hushtune(*given, "--repetitions", "100", "--json").stdout)
    assert found["method"]["name"] == arguments[0]
