"""comparison.html: methods, seals and guarantees side by side, as one file that needs nothing else but its runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hushtune.core.plots import round_ticks
from hushtune.core.svg import Area, Axis, legend, panel, picture, polyline, text
from hushtune.core.words import as_set, counted, up
from hushtune.review.comparison.table import ARMS, EXACT, Arm, Comparison
from hushtune.review.pages.html import document, listing, note, section, table


def page(found: Comparison) -> str:
    """The whole HTML file for a comparison."""
    return document(
        "hushtune comparison",
        [
            _head(found),
            section("picture", "Scores", *_picture(found)),
            section("arms", "All combinations", _table(found)),
            section("learned", "Who learned what", _learned(found)),
            section("refused", "Refused", *_refused(found)),
            section("reading", "How to read this", _reading(found)),
        ],
    )


def _head(found: Comparison) -> str:
    result = found.ran[0].result
    assert result is not None
    return (
        "<header>\n<h1>hushtune: comparison</h1>\n"
        f"<p>{counted(result.asked, 'client')}, {counted(len(found.ran), 'combination')}, "
        f"{len(found.arms) - len(found.ran)} refused; "
        f"hushtune {escape(result.hushtune)}</p>\n"
        '<p class="mark">SIMULATION: seeded noise, no ledger charged, reference figures allowed.</p>\n</header>'
    )


def _table(found: Comparison) -> str:
    heads = ["method", "seal", "epsilon", "score", "spent", "messages", "bytes", "seconds", "the server also sees"]
    rows = []
    for arm in found.ran:
        row = arm.row()
        score = "" if arm.score is None else f"{arm.score:.3f}"
        score += "" if arm.deviation is None else f" ± {arm.deviation:.3f}"
        spent = "no guarantee" if arm.privacy is None else up(row["spent"], 3)
        traffic = (f"{row['messages']:g}", f"{row['bytes']:,.0f}", f"{row['seconds']:.1f}")
        rows.append((arm.method, arm.seal, arm.guarantee, score, spent, *traffic, arm.server_sees))
    best = found.reference.get("opt")
    known = "" if best is None else f" The best candidate's score is {best:.3f}"
    known += (
        f", the mean candidate's {found.reference['random_guess']:.3f}." if "random_guess" in found.reference else ""
    )
    words = (
        f"Scores: on the simulation's reference, mean and standard deviation over {found.draws} draws of the noise, "
        f"the same for all combinations; of the only one chosen, where there is none.{known} Messages and bytes: of an "
        "average client, both ways. Seconds: of the whole federation in this process, without scoring."
    )
    beside = dict.fromkeys(
        f"Without asking anybody: {words} ({arm.method})." for arm in found.ran for words in arm.alone
    )
    return note(words) + table(heads, rows) + (listing(list(beside)) if beside else "")


def _learned(found: Comparison) -> str:
    """By method and seal: it differs between guarantees in the amount of noise only."""
    rows = dict.fromkeys(
        (arm.method, arm.seal, "with noise" if arm.privacy is not None else EXACT, disclosure.to, disclosure.what)
        for arm in found.ran
        for disclosure in arm.disclosures
    )
    links = "".join(_link(arm, arm.folder) for arm in found.ran if arm.folder is not None)
    reports = f"<details><summary>Reports with the privacy statement of each</summary><ul>{links}</ul></details>"
    return table(["method", "seal", "", "who", "what"], rows) + (reports if links else "")


def _link(arm: Arm, folder: str) -> str:
    words = f"{arm.method}, {arm.seal}, {arm.guarantee}"
    return f'<li><a href="{ARMS}/{escape(folder)}/report.html">{escape(words)}</a></li>'


def _refused(found: Comparison) -> list[str]:
    rows = [(arm.method, arm.seal, arm.guarantee, arm.refused) for arm in found.arms if arm.refused is not None]
    return [table(["method", "seal", "epsilon", "reason"], rows)] if rows else []


def _reading(found: Comparison) -> str:
    used = {arm.result.seal.name: arm.result.seal.brief for arm in found.ran if arm.result is not None}
    seals = [f"{name}: {brief}" for name, brief in used.items() if brief]
    privacies = dict.fromkeys(arm.privacy for arm in found.ran if arm.privacy is not None)
    units = dict.fromkeys(f"per {p.unit}, neighbours {p.neighbours}, delta {as_set(p.delta)}" for p in privacies)
    words = [
        *(f"Guarantees are {unit}." for unit in units),
        *(f"Seal {seal}." for seal in seals),
        "This is a simulation. On private data, looking at several of these and taking the best would itself be a "
        "release: compare on data that you may look at, choose, and then tune once for real.",
    ]
    return listing(words)


def _picture(found: Comparison) -> list[str]:
    drawn = scores_picture(found)
    return [drawn] if drawn else [note("No reference was given, so there are no scores.")]


def scores_picture(found: Comparison, width: float = 900.0) -> str:
    """Scores against epsilon: a panel per seal, a colour per method. Empty without scores."""
    arms = [arm for arm in found.ran if arm.score is not None]
    if not arms:
        return ""
    methods, seals = list(dict.fromkeys(_series(arm) for arm in arms)), list(dict.fromkeys(arm.seal for arm in arms))
    x, y = _epsilons(arms), _levels(found, arms)
    each = (width - 20) / len(seals)
    parts = [legend(60, 20, methods)]
    for at, seal in enumerate(seals):
        area = Area(20 + at * each + 60, 60, each - 90, 240)
        own = {
            method: sorted(
                (_at(arm, x), arm.score or 0.0) for arm in arms if (_series(arm), arm.seal) == (method, seal)
            )
            for method in methods
        }
        parts.append(panel(area, f"seal '{seal}'", x, y, own))
        parts += _references(found, area, x, y)
    return picture(width, 350, *parts)


def _series(arm: Arm) -> str:
    return arm.method + arm.terms


def _at(arm: Arm, x: Axis) -> float:
    return x.ticks[-1] if arm.privacy is None else arm.privacy.epsilon


def _epsilons(arms: Sequence[Arm]) -> Axis:
    """A logarithmic axis over the epsilons; exact values stand at its right end."""
    ticks = sorted({arm.privacy.epsilon for arm in arms if arm.privacy is not None})
    last = 3 * ticks[-1] if ticks else 1.0
    exact = any(arm.privacy is None for arm in arms)
    shown = [*ticks, last] if exact or len(ticks) < 2 else ticks
    if len(shown) < 2:
        shown = [last / 2, last]
    return Axis("epsilon", shown, log=True, words={last: EXACT if exact else " ", last / 2: " "})


def _levels(found: Comparison, arms: Sequence[Arm]) -> Axis:
    values = [arm.score for arm in arms if arm.score is not None] + list(found.reference.values())
    low, high = min(values), max(values)
    return Axis("score", round_ticks(low, high if high > low else low + 1))


def _references(found: Comparison, area: Area, x: Axis, y: Axis) -> list[str]:
    """Lines at the best and the mean candidate's scores."""
    parts = []
    for name, words in (("opt", "best candidate"), ("random_guess", "mean candidate")):
        if name in found.reference:
            ends = [area.place(x, y, (tick, found.reference[name])) for tick in (x.ticks[0], x.ticks[-1])]
            parts.append(polyline(ends, "line dashed level"))
            parts.append(text(ends[1][0] - 4, ends[1][1] - 5, words, "end"))
    return parts
