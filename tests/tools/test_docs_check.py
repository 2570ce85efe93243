from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import docs_check
import docs_rules
import pytest
from docs_pages import PageError, Shown, commands
from docs_rules import Rule
from docs_shell import Scratch
from tests.core.processes.test_pool import until


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository without pages' contents."""
    root = tmp_path / "tree"
    for name in ("README.md", "CONTRIBUTING.md", "docs/a.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def ran(tree: Path, page: str) -> tuple[bool, list[docs_check.Row], list[str]]:
    (tree / "README.md").write_text(page)
    rows, said = docs_check.rows_of(tree), list[str]()
    with Scratch(tree) as scratch:
        return docs_check.run(rows, scratch, said.append), rows, said


def test_commands_of_a_page_in_its_order(tree: Path) -> None:
    (tree / "README.md").write_text("""Say `make it` or `hushtune plan --clients
3`, not `hushtune-home` or `make`. <!-- `make nothing` -->

```
hushtune one   # a remark
# another

cd a && make \\
    b          # goes on
```

```console
$ hushtune two
its output
```

```toml
[make]
```
""")
    found = commands(tree, "README.md")
    assert [(one.line, one.text) for one in found if one.inline] == [
        (1, "make it"),
        (1, "hushtune plan --clients 3"),
    ]
    assert [(one.line, one.text) for one in found if not one.inline] == [
        (5, "hushtune one"),
        (9, "cd a && make b"),
        (13, "hushtune two"),
    ]


@pytest.mark.parametrize("block", ["```\nimport hushtune as ht\n```", "```ruby\nhushtune run\n```"])
def test_a_block_that_is_nothing_known_is_refused(tree: Path, block: str) -> None:
    (tree / "README.md").write_text(block)
    with pytest.raises(PageError, match=r"README\.md:2: a block"):
        commands(tree, "README.md")


def test_a_page_is_one_shell_in_a_copy_and_the_next_begins_anew(tree: Path) -> None:
    with Scratch(tree) as scratch:
        scratch.begin()
        assert scratch.run("export X=1 && cd docs", 10).code == 0
        assert scratch.run("printf $X $PWD", 10).output == "1"
        assert Path(scratch.where).name == "docs"
        assert scratch.run("pwd", 10, at_top=True).output.strip() == str(scratch.tree)
        scratch.begin()
        assert scratch.run("printf ${X-unset}:$HUSHTUNE_HOME", 10).output == f"unset:{scratch.folder}/home"
        assert scratch.run("printf 1 > made", 10).code == 0
        assert (scratch.tree / "made").exists()
    assert not (tree / "made").exists()
    assert not scratch.folder.exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("python -c 'raise SystemExit(3)'", "exit code 3"),
        ("python -c '1/0' || cd .", "printed 'Traceback"),
        ("printf \"does not provide the extra 'x'\"", "printed 'does not"),
    ],
)
def test_the_first_failure_ends_it(tree: Path, command: str, why: str) -> None:
    fine, rows, said = ran(tree, f"```\n{command}\nprintf after\n```")
    assert not fine
    assert why in rows[0].outcome
    assert rows[1].outcome == ""
    assert command in "".join(said)


def test_what_takes_too_long_fails(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_check, "LIMIT", 0.2)
    fine, rows, _ = ran(tree, "```\npython -c 'import time; time.sleep(60)'\n```")
    assert (fine, rows[0].outcome) == (False, "FAILED: took too long")


def test_the_environment_cannot_be_changed(tree: Path) -> None:
    """What is installed, and make's marks of it, stay as they are; the programs are there."""
    with Scratch(tree) as scratch:
        scratch.begin()
        assert scratch.run("touch .venv/mark && .venv/bin/python -c 'import hushtune'", 60).code == 0
        assert not (Path(sys.prefix) / "mark").exists()
        assert scratch.run("printenv PIP_DRY_RUN", 10).output == "1\n"


def test_the_same_command_runs_once(tree: Path) -> None:
    _, rows, _ = ran(tree, "```\nprintf a >> log\nprintf a >> log\n```")
    assert [row.outcome for row in rows] == ["ok", "ran at README.md:2"]


def _program(pid: int) -> str:
    """What a process runs: while it becomes another program, its environment cannot be read."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_what_is_left_running_is_stopped(tree: Path) -> None:
    with Scratch(tree) as scratch:
        scratch.begin()
        scratch.run("setsid sleep 600 > /dev/null 2>&1 & cd .", 10)
        until(lambda: [_program(pid) for pid in scratch._running()] == ["sleep"])
        scratch.begin()
        assert not scratch._running()


def test_what_a_command_needs_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUSHTUNE_DATA", raising=False)
    monkeypatch.setitem(docs_rules.MODULES, "torch", "json")  # is there, whatever is installed
    monkeypatch.setitem(docs_rules.MODULES, "flower", "no_such_module")
    fine, rows, _ = ran(tree, "`python -m experiments dp-hype --data adult` and `flwr list`")
    assert fine
    assert [row.outcome for row in rows] == ["not run: needs HUSHTUNE_DATA", "not run: needs extra flower"]


def test_what_covers_a_command_must_be_there(tree: Path) -> None:
    (tree / "README.md").write_text("`make lint`")
    with pytest.raises(
        PageError, match=r"README\.md:1: 'make lint' is covered by \.ci/run: make lint, which is not there"
    ):
        docs_check.rows_of(tree)
    (tree / ".ci").mkdir()
    (tree / ".ci" / "run").write_text("make test\nmake lint\n")
    assert docs_check.rows_of(tree)[0].runs == ""


def test_reductions_keep_what_is_documented_and_a_help_knows_the_options() -> None:
    shown = Shown("README.md", 1, "HUSHTUNE_DATA=... python -m experiments central --data adult --seeds 3")
    runs = docs_rules.what_runs(shown, docs_rules.rule_for(shown))
    assert runs.startswith("python -m experiments central --data adult --seeds 3 --quick")
    rule = Rule("x", "", covered="x", help="printf --known")
    row = docs_check.Row("", "x --unknown --known", "", docs_rules.what_runs(shown, rule), (), False, "")
    result = docs_check.judged(row, docs_check.Ran(0, "--known", 0.0, 0.0))
    assert result == "FAILED: the help does not know --unknown"
