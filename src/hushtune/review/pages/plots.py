"""The report's plots, as inline SVG with tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.plots import WIDTH, along, described, levels, round_ticks, short, svg_of
from hushtune.core.space import Candidates
from hushtune.core.svg import Area, Axis, polyline, text
from hushtune.methods.decode import smooth
from hushtune.run.result import Result

_MOST_SHOWN = 120  # candidates in the plot of counts; the table has them all


def counts_plot(result: Result, name: str, values: Sequence[int]) -> str:
    """Opened values with their noise band and the smoothed posterior, the largest first."""
    deviation = result.opened[-1].noise_variance ** 0.5
    mean, spread = _smoothed(result, values)
    order = np.argsort(-np.asarray(values), kind="stable")[:_MOST_SHOWN]
    if result.index is not None and result.index not in order:
        order = np.append(order[:-1], result.index)
    low = min(0.0, float(min(values)) - 2 * deviation, float((mean - spread).min()))
    high = max(1.0, float(max(values)) + 2 * deviation, float((mean + spread).max()))
    up, across = Axis(name, round_ticks(low, high)), Axis("", (0.0, float(len(order))))
    area = Area(60, 20, WIDTH - 80, 260)
    parts = levels(area, up)
    width = area.width / len(order)
    for place, at in enumerate(order):
        x, y = area.place(across, up, (place + 0.5, values[at]))
        top, bottom = (area.place(across, up, (0, values[at] + sign * 2 * deviation))[1] for sign in (1, -1))
        chosen = " chosen" if at == result.index else ""
        tip = f"candidate {at}: {described(result.candidates[int(at)])}; {name} {values[at]}; smoothed {mean[at]:.1f}"
        marks = [
            f'<rect class="band{chosen}" x="{x - width * 0.4:.1f}" y="{top:.1f}" width="{width * 0.8:.1f}" '
            f'height="{max(0.5, bottom - top):.1f}"/>',
            f'<circle class="opened{chosen}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>',
        ]
        centre, above, below = (area.place(across, up, (0, mean[at] + s * spread[at]))[1] for s in (0, 1, -1))
        marks.append(f'<line class="posterior" x1="{x:.1f}" y1="{above:.1f}" x2="{x:.1f}" y2="{below:.1f}"/>')
        marks.append(f'<path class="posterior" d="M{x:.1f} {centre - 4:.1f}l4 4l-4 4l-4 -4z"/>')
        parts.append(f'<g class="candidate"><title>{escape(tip)}</title>{"".join(marks)}</g>')
    shown = f"candidates by {name}, largest first"
    if len(order) < len(values):
        shown += f" ({len(order)} of {len(values)} shown)"
    parts.append(text(area.left + area.width / 2, area.top + area.height + 24, shown, "middle"))
    return svg_of("plot-counts", 310, parts)


def _smoothed(result: Result, values: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """As `Vote(decode="smooth")` does it; what the noise-free sum adds up to may be public."""
    total = result.method.total(result.candidates, result.answered)
    expected = result.method.expected(result.candidates)
    found = smooth(np.asarray(values), total, result.opened[-1].noise_variance, result.candidates, expected)
    return found.mean, found.deviation


def parallel_plot(result: Result, name: str, values: Sequence[int]) -> str:
    """One line per candidate through its knobs and its value, the stronger the larger the value."""
    low, high = float(min(values)), float(max(values))
    strength = (np.asarray(values, dtype=np.float64) - low) / max(high - low, 1.0)
    tips = [f"; {name} {value}" for value in values]
    return _parallel(result, strength, tips, (name, f"{low:g}", f"{high:g}"))


def knobs_plot(result: Result) -> str:
    """One line per candidate through its knobs, all alike but for the chosen one."""
    count = len(result.candidates)
    return _parallel(result, np.full(count, 0.5), [""] * count, ())


def _parallel(result: Result, strength: FloatArray, tips: Sequence[str], ends: Sequence[str]) -> str:
    """Lines through knobs.

    Args:
        result: what is shown.
        strength: of each candidate's line, from 0 to 1.
        tips: what is added to each candidate's tooltip.
        ends: name, lowest and highest value of an axis for the strength; empty: none.
    """
    candidates, places = result.candidates, _places(result.candidates)
    top, height, left, right = 40.0, 240.0, 90.0, WIDTH - 90
    knobs = list(places)
    axes = [*knobs, *ends[:1]]
    xs = np.linspace(left, right, len(axes))
    parts = []
    for x, axis in zip(xs, axes, strict=True):
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + height}"/>')
        parts.append(text(x, top - 20, axis, "middle"))
    for x, knob in zip(xs, knobs, strict=False):
        side, anchor = (-6, "end") if x < xs[-1] else (6, "start")
        for label, at in _labels(candidates, knob, places[knob]):
            parts.append(text(x + side, top + (1 - at) * height + 4, label, anchor))
    if ends:
        parts += [text(xs[-1] + 6, top + 4, ends[2]), text(xs[-1] + 6, top + height + 4, ends[1])]
    for at in sorted(np.argsort(strength, kind="stable"), key=lambda at: bool(at == result.index)):
        points = [(x, top + (1 - places[knob][at]) * height) for x, knob in zip(xs, knobs, strict=False)]
        if ends:
            points.append((xs[-1], top + (1 - strength[at]) * height))
        chosen = at == result.index
        style = "candidate-line chosen" if chosen else "candidate-line"
        line = polyline(points, style).replace(
            "/>", f' style="opacity:{1 if chosen else 0.08 + 0.5 * strength[at] ** 2:.2f}">'
        )
        tip = f"candidate {at}: {described(candidates[int(at)])}{tips[at]}"
        parts.append(f"{line}<title>{escape(tip)}</title></polyline>")
    return svg_of("plot-parallel", 310, parts)


def _places(candidates: Candidates) -> dict[str, FloatArray]:
    """Where each candidate lies on each knob's axis, from 0 to 1."""
    return {name: along(candidates.space, name, candidates.encoded) for name in candidates.space.knobs}


def _labels(candidates: Candidates, knob: str, places: FloatArray) -> list[tuple[str, float]]:
    """A few values of a knob and where they lie."""
    seen = {round(float(place), 6): short(candidates[at][knob]) for at, place in enumerate(places)}
    ends = sorted(seen)
    kept = ends if len(ends) <= 8 else [ends[at] for at in np.linspace(0, len(ends) - 1, 5).astype(int)]
    return [(seen[place], place) for place in kept]


def shares_plot(seconds: Mapping[str, float]) -> str:
    """A bar for each phase of a run."""
    longest = max([*seconds.values(), 1e-9])
    parts = []
    for row, (name, value) in enumerate(seconds.items()):
        y = 8 + 26 * row
        parts.append(text(150, y + 14, name, "end"))
        parts.append(f'<rect class="s0" x="160" y="{y}" width="{max(1.0, 560 * value / longest):.1f}" height="18"/>')
        parts.append(text(170 + 560 * value / longest, y + 14, f"{value:.2f} s"))
    return svg_of("plot-time", 16 + 26 * max(1, len(seconds)), parts)
