"""How documented commands are run: as they are, unless a rule here says what is changed, or what runs them instead.

A reduced command has options added: of an option that is given twice the last one counts, so everything that is
documented is parsed, and the same code runs on less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from docs_pages import PageError, Shown

DEPLOYED = "tests/federation/flower/test_deployment.py::test_a_masked_vote_after_the_server_app_was_killed_on_the_way"
PINNED = "tests/federation/flower/test_deployment.py::test_with_tls_and_node_authentication"
DATA = "HUSHTUNE_DATA"
MODULES = {"torch": "torch", "dpsgd": "opacus", "flower": "flwr", "dev": "pre_commit"}
"""The module by which an extra is known to be there."""


@dataclass(frozen=True)
class Rule:
    """What becomes of the commands that begin with `pattern`, a regular expression.

    Args:
        add: options that make it smaller.
        swap: what stands for what: placeholders, and options that must not be as documented.
        needs: extras, or the folder of data sets.
        covered: the test (FILE::FUNCTION) or the step of .ci/run that runs it instead; \\g<0> is the command.
        help: the command whose help must name all options of a covered one.
        inline: only where the command is named in a sentence.
        again: what a command prints that is tried again, twice at the most.
        why: a few words for the listing.
    """

    pattern: str
    why: str
    add: str = ""
    swap: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    covered: str = ""
    help: str = ""
    again: str = ""
    inline: bool = False


def _experiment(name: str, add: str, *needs: str, why: str = "reduced") -> Rule:
    command = rf"(HUSHTUNE_DATA=\S+ )?(\.venv/bin/)?python -m experiments {name}\b"
    return Rule(command, why, add, (("HUSHTUNE_DATA=... ", ""),), needs)


RULES = (
    # Installation and continuous integration.
    Rule(r"make demo$", "as it is, with the environment that is there"),
    Rule(r"make test-all$|\.ci/run$", "every step of it is in .ci/run", covered=".ci/run: make test"),
    Rule(
        r"make bench\b", "20 minutes", covered="tests/experiments/speed/test_bars.py::test_the_command_writes_the_page"
    ),
    Rule(
        r"make matrix$",
        "rewrites README and docs/matrix.md",
        covered="tests/testing/test_matrix.py::test_both_files_are_what_their_cells_make",
    ),
    Rule(r"make test-oldest ALL=1$", "a part of it, before each release all", covered=".ci/run: make test-oldest"),
    Rule(
        r"make locks\b",
        "it asks a package index",
        covered="tests/tools/test_locks.py::test_locks_are_written_anew_and_keep_what_fits_unless_told_otherwise",
    ),
    Rule(r"make [a-z-]+$", "continuous integration", covered=r".ci/run: \g<0>"),
    Rule(
        r"pip install -e '\.\[test\]'$",
        "an example's package, into a folder of the scratch copy",
        swap=(("pip install -e '.[test]'", "env -u PIP_DRY_RUN pip install --no-deps --target $PACKAGES ."),),
    ),
    Rule(
        r"pip install\b",
        "resolved, not installed",
        swap=(("pip install", "env -u PIP_DRY_RUN pip install --dry-run"),),  # the variable would reach pip's own build
    ),
    Rule(r"hushtune mhe setup$", "into its own environment", swap=(("hushtune", "env -u PIP_DRY_RUN hushtune"),)),
    Rule(r"pre-commit install$", "as it is", needs=("dev",)),
    Rule(
        r"pytest -s tests/federation/flower/test_deployment.py -k server_app$",
        "continuous integration",
        covered=DEPLOYED,
    ),
    # Named in a sentence: the help says that they are there, with their options.
    Rule(r"hushtune ledger show$", "as it is"),
    Rule(r"hushtune( [a-z][a-z0-9-]*){0,2}$", "named: its help", add="--help", inline=True),
    Rule(r"python -m experiments( [a-z-]+)?$", "named: its help", add="--help", inline=True),
    Rule(r"hushtune (run --json|plan --method [a-z-]+)$", "named: its help", add="--help", inline=True),
    Rule(r"hushtune plan --prior \d+$", "named: its help", add="--help", inline=True),
    Rule(r"hushtune --(install|show)-completion$", "would change the user's shell: help", add="--help", inline=True),
    Rule(r"flwr (run \. local|stop RUN_ID)$", "named: its help", add="--help", needs=("flower",), inline=True),
    Rule(r"hushtune identity roster \.\.\. --node ", "named: its help", add="--help", inline=True),
    Rule(r"hushtune node --listen HOST:PORT ", "named: its help", add="--help", inline=True),
    Rule(
        r"hushtune prior study\.toml ",
        "needs a study of one's own, and public data",
        covered="tests/cli/test_prior.py::test_candidates_are_scored_on_public_data_and_the_study_takes_it",
        help="hushtune prior",
    ),
    # A quorum of programs.
    Rule(r"hushtune node --listen 127\.", "beside what follows, until the page ends", add="&"),
    # Placeholders.
    Rule(r"hushtune COMMAND --help$", "one of them", swap=(("COMMAND", "run"),)),
    Rule(r"HUSHTUNE_HOME=\S+ hushtune ledger show$", "own home", swap=(("=...", "=."), ("=/var/lib/hushtune", "=."))),
    Rule(
        r"hushtune verify DIR$",
        "README's run",
        swap=(
            ("hushtune", "{ test -d runs/first || hushtune run examples/digits.toml --out runs/first; } && hushtune"),
            ("DIR", "runs/first"),
        ),
    ),
    Rule(
        r"hushtune compare examples/compare.toml\b",
        "fewer clients, candidates, epsilons and draws",
        swap=(
            (
                "hushtune compare examples/compare.toml",
                "sed -e 's/clients = 100/clients = 10/; s/gamma = 11/gamma = 3/' "
                "-e 's/0.25, 1.0, //; s/draws = 20/draws = 2/' examples/compare.toml "
                "> examples/fewer.toml && hushtune compare examples/fewer.toml",
            ),
        ),
    ),
    Rule(
        r"hushtune compare examples/winner.toml\b",
        "fewer clients, candidates, epsilons and draws",
        swap=(
            (
                "hushtune compare examples/winner.toml",
                "sed -e 's/clients = 100/clients = 10/; s/gamma = 11/gamma = 3/; s/k = 20/k = 6/' "
                "-e 's/0.1, 0.25, 0.5, //; s/draws = 300/draws = 2/' examples/winner.toml "
                "> examples/fewer-winners.toml && hushtune compare examples/fewer-winners.toml",
            ),
        ),
    ),
    Rule(
        r"hushtune identity roster ROSTER NAME=KEY \.\.\.$",
        "the key that was just made",
        swap=(("KEY ...", "$(hushtune identity show FILE)"),),
    ),
    Rule(
        r"hushtune identity roster roster.toml clinic-0=PUBLICKEY clinic-1=PUBLICKEY \.\.\.$",
        "two keys",
        swap=(
            ("clinic-0=PUBLICKEY", "clinic-0=$(hushtune identity show client.key)"),
            ("clinic-1=PUBLICKEY ...", "clinic-1=$(hushtune identity new other.key | sed 's/.*: //')"),
        ),
    ),
    # Several machines.
    Rule(r"flwr list$", "as it is", needs=("flower",)),
    Rule(r"flwr run \. local\b", "as it is", needs=("flower",), again="Failed to start local SuperLink within 15s"),
    Rule(
        r"flower-superlink --insecure\b", "several hosts", needs=("flower",), covered=DEPLOYED, help="flower-superlink"
    ),
    Rule(r"flower-superlink\b", "several hosts", needs=("flower",), covered=PINNED, help="flower-superlink"),
    Rule(
        r"flower-supernode --insecure\b", "several hosts", needs=("flower",), covered=DEPLOYED, help="flower-supernode"
    ),
    Rule(r"flower-supernode\b", "several hosts", needs=("flower",), covered=PINNED, help="flower-supernode"),
    Rule(r"flwr run \. hospitals\b.*roster", "several hosts", needs=("flower",), covered=PINNED, help="flwr run"),
    Rule(r"flwr run \. hospitals\b", "several hosts", needs=("flower",), covered=DEPLOYED, help="flwr run"),
    Rule(
        r"flwr supernode register\b", "several hosts", needs=("flower",), covered=PINNED, help="flwr supernode register"
    ),
    # Experiments.
    Rule(r"python examples/private_model\.py\b", "as it is", needs=("dpsgd",)),
    _experiment("secure-sum", "--clients 20,40 --length 20"),
    _experiment("choice", "--data digits --split iid --epsilon 0.5,1 --draws 2 --out runs/choice", "torch"),
    _experiment("dp-hype-simulation", "--repetitions 20"),
    _experiment("speed", "--rows 20", "torch"),
    _experiment(r"dp-hype .*--data (?!digits\b)", "--quick --rows 400 --runs 2 --split iid", "torch", DATA),
    _experiment("dp-hype", "--quick --runs 2", "torch"),
    _experiment("flora .*--data mnist", "--rows 200 --trials 3 --send 3 --folds 2 --draws 1 --epsilon 3", DATA),
    _experiment(
        "flora .*--data",
        "--rows 120 --trials 3 --send 3 --folds 2 --parties 3 --seeds 1 --draws 1 --models svm --epsilon 3 --spread .1",
        DATA,
    ),
    _experiment("surfaces", "--clients 5 --trials 10"),
    Rule(
        r"python -m experiments privtuna .*--replay\b",
        "2 CPU minutes for each seed",
        covered="tests/experiments/privtuna/test_replay.py::test_from_the_command_line",
        help="python -m experiments privtuna",
    ),
    _experiment("privtuna .*--train", "--quick", "torch"),
    _experiment("fts .*--task synthetic", "--seeds 2 --agents 4 --quick"),
    Rule(
        r"python -m experiments fts .*--task (landmine|digits|emnist)\b",
        "tabulates 10,000 fits and more",
        covered="tests/experiments/dp_fts_de/test_experiment.py::test_a_real_task_is_tabulated_once",
        help="python -m experiments fts",
    ),
    _experiment("fts-speed", "--agents 8"),
    _experiment("propose", "--runs 1000"),
    _experiment("central .*--data digits", "--quick --seeds 1 --epsilon 3", "dpsgd"),
    _experiment("central", "--quick --seeds 1 --epsilon 3", "dpsgd", DATA),
    _experiment("flower", "--nodes 3 --repeats 1", "flower"),
    Rule(
        r"hushtune mhe setup && python -m experiments mhe$",
        "reduced",
        add="--clients 10",
        swap=(("hushtune mhe", "env -u PIP_DRY_RUN hushtune mhe"),),
    ),
    _experiment("mhe", "--clients 10"),
    _experiment("quorum .*--ballot dbscan", "", why="as it is"),
    _experiment("quorum", "--clients 20"),
    _experiment(
        "records",
        "--data digits --clients 5 --split iid --seeds 0 --voters 2 --epsilon 1 --draws 5 --measured runs/measured",
    ),
    _experiment("bars", "--only plan", why="one bar"),
)


def rule_for(command: Shown) -> Rule | None:
    """The first rule that fits; none: the command runs as it is."""
    fitting = (rule for rule in RULES if re.match(rule.pattern, command.text))
    return next((rule for rule in fitting if command.inline or not rule.inline), None)


def what_runs(command: Shown, rule: Rule | None) -> str:
    """The text that a shell gets. A covered command is asked for its help, if the rule says so."""
    if rule is None:
        return command.text
    if rule.covered:
        return f"{rule.help} --help" if rule.help else ""
    text = command.text
    for placeholder, value in rule.swap:
        text = text.replace(placeholder, value)
    return f"{text} {rule.add}".strip()


def covered_by(root: Path, command: Shown, rule: Rule) -> str:
    """What runs a covered command; refused if it is not there."""
    match = re.match(rule.pattern, command.text)
    covered = match.expand(rule.covered) if match else ""
    place, _, name = covered.partition("::" if "::" in covered else ": ")
    text = (root / place).read_text(encoding="utf-8") if (root / place).is_file() else ""
    wanted = rf"^def {name}\(" if "::" in covered else rf"^{name}$"
    if not re.search(wanted, text, re.MULTILINE):
        raise PageError(f"{command.place}: {command.text!r} is covered by {covered}, which is not there")
    return covered
