"""The page: sections as HTML. Everything that a user named goes through `escape`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from hushtune.core.words import as_set, counted, down, up
from hushtune.methods.figures import Figure, value_text
from hushtune.privacy.accounting import Budget
from hushtune.review.beside import digest_tag
from hushtune.review.checks import Check
from hushtune.review.pages.html import document, listing, note, section, table
from hushtune.review.pages.plots import counts_plot, knobs_plot, parallel_plot, shares_plot
from hushtune.run.result import Result
from hushtune.run.simulation import figure_rows
from hushtune.run.statement import not_covered

_NO_TIMES = (
    "A real run with an epsilon keeps no times: how long clients take depends on data, and no epsilon covers it."
)


def page(result: Result, checks: Sequence[Check], digest: str) -> str:
    """The whole HTML file for a result.

    Args:
        result: what the page shows.
        checks: what was found when its claims were computed again.
        digest: of result.json, by which `verify` sees that the page was made from it.
    """
    sections = [
        _head(result),
        section("chosen", "The chosen config", _config(result), _figures(result)),
        section("counts", "What was opened", *_counts(result)),
        section("candidates", "All candidates", *_candidates(result)),
        section("disclosures", "Who learned what", _disclosures(result)),
        section("budget", "Budget", _budget(result)),
        section("clients", "Clients", _clients(result)),
        section("time", "Time", shares_plot(result.seconds) if result.seconds else note(_NO_TIMES)),
        section("not-covered", "What is not covered", listing(not_covered(result))),
        section("statement", "The privacy statement", f"<pre>{escape(result.statement)}</pre>"),
        section("verify", "How to check this", _verify(checks, digest)),
    ]
    return document(f"hushtune run {result.run[:8]}", sections, digest_tag(digest))


def _head(result: Result) -> str:
    privacy, voters = result.privacy, result.method.voters_each
    guarantee = "none" if privacy is None else f"epsilon {up(result.spent.epsilon, 3)}"
    unit = (
        "what was opened is exact"
        if privacy is None
        else f"delta {up(result.spent.delta)}, per {privacy.unit}, {privacy.neighbours}"
    )
    each = f", {voters} voters each" if voters > 1 else ""
    cards = [
        ("guarantee", guarantee, unit),
        ("clients", f"{result.answered} of {result.asked}", f"answered{each}"),
        ("candidates", f"{len(result.candidates):,}", "public, 1 chosen" if result.index is not None else "public"),
        ("seal", result.seal.name, "identities pinned" if result.pinned else "identities not pinned"),
    ]
    shown = "".join(
        f'<div class="card"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(more)}</span></div>'
        for name, value, more in cards
    )
    warning = ""
    if result.simulation is not None:
        warning = '<p class="mark">SIMULATION: seeded noise, no ledger charged, reference figures allowed.</p>'
    return (
        f"<header>\n<h1>hushtune: {escape(str(result.method.name))}</h1>\n"
        f"<p>run {escape(result.run)}, hushtune {escape(result.hushtune)}</p>\n{warning}\n"
        f'<div class="cards">{shown}</div>\n</header>'
    )


def _config(result: Result) -> str:
    return table(["knob", "value"], ((name, value_text(value)) for name, value in result.config.items()))


def _figures(result: Result) -> str:
    figures = (result.simulation or {}).get("figures")
    if not figures:
        return ""
    return note("Only a marked simulation can know these; scores are test scores.") + table(
        ["simulation figure", ""], ((name, f"{value:.3f}") for name, value in figure_rows(figures))
    )


def _counts(result: Result) -> list[str]:
    parts = [part for figure in result.method.figures(result) for part in _drawn(figure)]
    found = result.per_candidate()
    if found is None:
        return parts or [note("Nothing with one entry per candidate was opened.")]
    deviation = result.opened[-1].noise_variance ** 0.5
    band = f"The band is twice the noise's standard deviation, {deviation:.3g}, around each opened value. "
    known = (
        "Only opened values and the public prior are"
        if result.method.rests_on(result.asked)
        else "Only opened values are"
    )
    words = (band if deviation else "The values are exact. ") + (
        f"Diamonds are the smoothed posterior mean, with its standard deviation. {known} used."
    )
    return [*parts, note(words), counts_plot(result, *found)]


def _drawn(figure: Figure) -> list[str]:
    parts = [note(figure.words)] if figure.words else []
    parts += [figure.svg] if figure.svg else []
    return [*parts, table(figure.columns, figure.rows)] if figure.columns else parts


def _candidates(result: Result) -> list[str]:
    found = result.per_candidate()
    if found is None:
        return _unnumbered(result) if result.method.consults else []
    name, values = found
    order = sorted(range(len(values)), key=lambda at: -values[at])
    rows = [(*_row(result, at), values[at], _mark(result, at)) for at in order]
    return [
        note("Each line is a candidate, the stronger the more it got; the chosen one is marked."),
        parallel_plot(result, name, values),
        _every(result, ["candidate", *result.candidates.space.knobs, name, ""], rows),
    ]


def _unnumbered(result: Result) -> list[str]:
    """Candidates of which no number was opened: only which one was chosen."""
    rows = [(*_row(result, at), _mark(result, at)) for at in range(len(result.candidates))]
    knobs = list(result.candidates.space.knobs)
    return [
        note("The public list that the run chose from, with the chosen one marked. No number was opened for any."),
        *([knobs_plot(result)] if len(knobs) > 1 else []),
        _every(result, ["candidate", *knobs, ""], rows),
    ]


def _row(result: Result, at: int) -> tuple[Any, ...]:
    return (at, *(value_text(result.candidates[at][knob]) for knob in result.candidates.space.knobs))


def _mark(result: Result, at: int) -> str:
    return "chosen" if at == result.index else ""


def _every(result: Result, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    every = table(heads, rows)
    return f"<details><summary>All {len(result.candidates)} candidates as a table</summary>\n{every}\n</details>"


def _disclosures(result: Result) -> str:
    return table(
        ["who", "what", "shape", "protection", "epsilon", "times"],
        (
            (
                d.to,
                d.what,
                " x ".join(map(str, d.shape)),
                d.mechanism,
                "no guarantee" if d.epsilon is None else up(d.epsilon),
                times,
            )
            for d, times in Counter(result.disclosures).items()
        ),
    )


def _amount(budget: Budget | None, figure: Callable[[float], str] = up) -> str:
    return "no limit" if budget is None else f"epsilon {figure(budget.epsilon)}, delta {figure(budget.delta)}"


def _budget(result: Result) -> str:
    books = result.ledger
    if books is None:
        return note("A simulation charges no ledger.")
    now = "an exact opening, which no epsilon covers" if result.privacy is None else _amount(result.spent)
    rows = [
        ("spent before this run", _amount(books.before)),
        *(
            [("asked for; as it had less left, fewer sums are opened", _amount(books.wanted, as_set))]
            if books.wanted
            else []
        ),
        ("this run", now),
        ("spent in all", _amount(books.spent)),
        ("limit", _amount(books.limit, as_set)),
        ("left for one more run", _amount(books.left, down)),
    ]
    age = "It was new: what was spent elsewhere before is not in it. " if books.new else ""
    return table(["coordinator's ledger", f"rule '{books.rule}', {counted(books.runs, 'run')}"], rows) + note(
        age + "Each client also keeps its own ledger, which only the client can read: `hushtune ledger show` there."
    )


def _clients(result: Result) -> str:
    facts: Mapping[str, Any] = {
        "asked": result.asked,
        "answered": result.answered,
        "dropped": len(result.dropped),
        **({"left out": len(result.left_out)} if result.left_out else {}),
        **({"honest answers that carry the noise": f"{result.honest:g}"} if result.noise.at == "parties" else {}),
        **({"nodes that computed": ", ".join(node.name for node in result.nodes)} if result.nodes else {}),
    }
    if result.traffic is not None:
        facts = {**facts, "trips": f"{result.traffic['trips']:g}"}
        facts = {
            **facts,
            "messages and bytes of an average client": "{messages:g}, {bytes:,.0f}".format(**result.traffic),
        }
    missing = table(["dropped client", "reason"], result.dropped.items()) if result.dropped else ""
    missing += table(["left out", "reason"], result.left_out.items()) if result.left_out else ""
    missing += (
        table(["counted, but of no help in opening the sum", "reason"], result.late.items()) if result.late else ""
    )
    return table(["clients", ""], facts.items()) + missing


def _verify(checks: Sequence[Check], digest: str) -> str:
    marks = {True: "holds", False: "DOES NOT HOLD"}
    return note(
        f"This page was made from a result.json with SHA-256 {digest}. `hushtune verify FOLDER` compares that, what "
        "else lies beside result.json and the coordinator's ledger, and computes these again from the recorded events "
        "and openings. It shows that records are consistent with each other, not that they are true. When this page "
        "was made:"
    ) + table(["claim", "", "figures"], ((c.claim, marks[c.holds], c.detail) for c in checks))
