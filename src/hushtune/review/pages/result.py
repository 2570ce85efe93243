"""The page: sections as HTML. Everything that a user named goes through `escape`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hushtune.curated import ANSWERS, NONE
from hushtune.methods.combine import Combine
from hushtune.privacy.accounting import Budget
from hushtune.reporting.combined import cells_plot, clusters
from hushtune.reporting.html import document, listing, note, section, table
from hushtune.reporting.plots import counts_plot, loudness_plot, pairs_plot, parallel_plot, shares_plot
from hushtune.result import Result
from hushtune.simulation import figure_rows
from hushtune.statement import not_covered
from hushtune.verification import Check

HETEROGENEOUS = 1.1  # gamma_p above which FLoRA's surfaces begin to lose (Tables 4 and 11)
_ADVICE = {
    False: "gamma_p is {:.2f}: the clients' best scores are close to each other, so any surface will do.",
    True: "gamma_p is {:.2f}: the clients' best scores differ much. The maximum of the local models, Surface('mplm'), "
    "degrades most gracefully then.",
}


def page(result: Result, checks: Sequence[Check]) -> str:
    """The whole file."""
    sections = [
        _head(result),
        section("chosen", "The chosen config", _config(result), _figures(result)),
        section("counts", "What was opened", *_counts(result)),
        section("candidates", "All candidates", *_candidates(result)),
        section("disclosures", "Who learned what", _disclosures(result)),
        section("budget", "Budget", _budget(result)),
        section("clients", "Clients", _clients(result)),
        section("time", "Time", shares_plot(result.seconds)),
        section("not-covered", "What is not covered", listing(not_covered(result))),
        section("statement", "The privacy statement", f"<pre>{escape(result.statement)}</pre>"),
        section("verify", "How to check this", _verify(result, checks)),
    ]
    return document(f"hushtune run {result.run[:8]}", sections)


def _head(result: Result) -> str:
    privacy, voters = result.privacy, result.method.get("voters", 1)
    guarantee = "none" if privacy is None else f"epsilon {result.spent.epsilon:.3g}"
    unit = (
        "what was opened is exact"
        if privacy is None
        else f"delta {result.spent.delta:g}, per {privacy.unit}, {privacy.neighbours}"
    )
    each = f", {voters} voters each" if voters > 1 else ""
    cards = [
        ("guarantee", guarantee, unit),
        ("clients", f"{result.answered} of {result.asked}", f"answered{each}"),
        ("candidates", f"{len(result.candidates):,}", "public, 1 chosen" if result.index is not None else "public"),
        ("seal", result.seal["name"], "identities pinned" if result.pinned else "identities not pinned"),
    ]
    shown = "".join(
        f'<div class="card"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(more)}</span></div>'
        for name, value, more in cards
    )
    warning = ""
    if result.simulation is not None:
        warning = '<p class="mark">SIMULATION: seeded noise, no ledger charged, reference figures allowed.</p>'
    return (
        f"<header>\n<h1>hushtune: {escape(str(result.method['name']))}</h1>\n"
        f"<p>run {escape(result.run)}, hushtune {escape(result.hushtune)}</p>\n{warning}\n"
        f'<div class="cards">{shown}</div>\n</header>'
    )


def _config(result: Result) -> str:
    return table(["knob", "value"], ((name, _value(value)) for name, value in result.config.items()))


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _figures(result: Result) -> str:
    figures = (result.simulation or {}).get("figures")
    if not figures:
        return ""
    return note("Only a marked simulation can know these; scores are test scores.") + table(
        ["simulation figure", ""], ((name, f"{value:.3f}") for name, value in figure_rows(figures))
    )


def _counts(result: Result) -> list[str]:
    if result.opened[-1].own is not None:
        words = (
            "Every client's own (config, loss) pairs, a colour per client; the line is where the chosen config lies."
        )
        return [note(words), pairs_plot(result), *_heterogeneity(result)]
    if result.method["name"] == Combine.name:
        return _combined(result)
    if ANSWERS in result.opened[-1].blocks:
        return _answers(result)
    shared = _shared(result)
    found = result.per_candidate()
    if found is None:
        return shared or [note("Nothing with one entry per candidate was opened.")]
    deviation = result.opened[-1].noise_variance ** 0.5
    band = f"The band is twice the noise's standard deviation, {deviation:.3g}, around each opened value. "
    words = (band if deviation else "The values are exact. ") + (
        "Diamonds are the smoothed posterior mean, with its standard deviation. Only opened values are used."
    )
    return [*shared, note(words), counts_plot(result, *found)]


def _answers(result: Result) -> list[str]:
    """What a curator answered, test by test; no score was opened."""
    answers = result.opened[-1].blocks[ANSWERS]
    rows = [(str(test), _answer(result, place)) for test, place in enumerate(answers, 1)]
    words = (
        "Answers of a trusted curator, each under its own noise. No score was opened, and none can be told from them."
    )
    return [note(words), table(["test", "answer"], rows)]


def _answer(result: Result, place: int) -> str:
    if place == NONE:
        return "no candidate is above the threshold"
    config = ", ".join(f"{name} {_value(value)}" for name, value in result.candidates[place].items())
    return f"candidate {place}: {config}"


def _shared(result: Result) -> list[str]:
    """How loud the vectors were that agents shared."""
    plot = loudness_plot(result)
    if not plot:
        return []
    words = "How long the vectors were that agents shared, opening by opening"
    if result.privacy is not None:
        words += "; noise alone would be as long as the line says"
    return [note(f"{words}."), plot]


def _combined(result: Result) -> list[str]:
    """Dense cells, the clusters, and what the method noted."""
    found, knobs = clusters(result), list(result.candidates.space.knobs)
    rows = [(n, *(_value(config[k]) for k in knobs), f"{score:.4g}") for n, (config, score) in enumerate(found, 1)]
    notes = [(name, _value(value)) for name, value in result.notes.items()]
    cells = cells_plot(result)
    words = "Cells of the grid over the clients' good configs; dense ones are marked, the diamond is the chosen config."
    return [
        *([note(words), cells] if cells else []),
        note("The clusters' centres and mean scores, the best first; only opened values are used."),
        table(["cluster", *knobs, "mean score"], rows),
        table(["computed from what was opened", ""], notes),
    ]


def _heterogeneity(result: Result) -> list[str]:
    """What a method noted, with FLoRA's advice on gamma_p (section 3)."""
    rows = [(name, _value(value)) for name, value in result.notes.items()]
    gamma = result.notes.get("gamma_p")
    advice = [] if not isinstance(gamma, float) else [note(_ADVICE[gamma > HETEROGENEOUS].format(gamma))]
    return [table(["computed from the pairs", ""], rows), *advice]


def _candidates(result: Result) -> list[str]:
    found = result.per_candidate()
    if found is None:
        return []
    name, values = found
    order = sorted(range(len(values)), key=lambda at: -values[at])
    knobs = list(result.candidates.space.knobs)
    rows = [
        (
            at,
            *(_value(result.candidates[at][knob]) for knob in knobs),
            values[at],
            "chosen" if at == result.index else "",
        )
        for at in order
    ]
    every = table(["candidate", *knobs, name, ""], rows)
    return [
        note("Each line is a candidate, the stronger the more it got; the chosen one is marked."),
        parallel_plot(result, name, values),
        f"<details><summary>All {len(values)} candidates as a table</summary>\n{every}\n</details>",
    ]


def _disclosures(result: Result) -> str:
    return table(
        ["who", "what", "shape", "protection", "epsilon", "times"],
        (
            (
                d.to,
                d.what,
                " x ".join(map(str, d.shape)),
                d.mechanism,
                "no guarantee" if d.epsilon is None else f"{d.epsilon:.4g}",
                times,
            )
            for d, times in Counter(result.disclosures).items()
        ),
    )


def _amount(budget: Budget | None) -> str:
    return "no limit" if budget is None else f"epsilon {budget.epsilon:.4g}, delta {budget.delta:.3g}"


def _budget(result: Result) -> str:
    books = result.ledger
    if books is None:
        return note("A simulation charges no ledger.")
    now = "an exact opening, which no epsilon covers" if result.privacy is None else _amount(result.spent)
    rows = [
        ("spent before this run", _amount(books.before)),
        *([("asked for; as it had less left, fewer sums are opened", _amount(books.wanted))] if books.wanted else []),
        ("this run", now),
        ("spent in all", _amount(books.spent)),
        ("limit", _amount(books.limit)),
        ("left for one more run", _amount(books.left)),
    ]
    age = "It was new: what was spent elsewhere before is not in it. " if books.new else ""
    return table(["coordinator's ledger", f"rule '{books.rule}', {books.runs} runs"], rows) + note(
        age + "Each client also keeps its own ledger, which only the client can read: `hushtune ledger show` there."
    )


def _clients(result: Result) -> str:
    facts: Mapping[str, Any] = {
        "asked": result.asked,
        "answered": result.answered,
        "dropped": len(result.dropped),
        **({"left out": len(result.left_out)} if result.left_out else {}),
        "honest answers that carry the noise": f"{result.noise['honest']:g}",
    }
    if result.traffic is not None:
        facts = {**facts, "trips": f"{result.traffic['trips']:g}"}
        facts = {
            **facts,
            "messages and bytes of an average client": "{messages:g}, {bytes:,.0f}".format(**result.traffic),
        }
    missing = table(["dropped client", "reason"], result.dropped.items()) if result.dropped else ""
    missing += table(["left out", "reason"], result.left_out.items()) if result.left_out else ""
    missing += table(["counted, but lost before the end", "reason"], result.late.items()) if result.late else ""
    return table(["clients", ""], facts.items()) + missing


def _verify(result: Result, checks: Sequence[Check]) -> str:
    marks = {True: "holds", False: "DOES NOT HOLD"}
    return note(
        "`hushtune verify FOLDER` computes these again from the recorded events and openings. It shows that the result "
        "is consistent with itself; it cannot show that the records are true. When this page was made:"
    ) + table(["claim", "", "figures"], ((c.claim, marks[c.holds], c.detail) for c in checks))
