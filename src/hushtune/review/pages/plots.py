"""The report's plots, as inline SVG with tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from hushtune.methods import method_from_json
from hushtune.methods.decode import smooth
from hushtune.methods.thompson import AgentVectors
from hushtune.result import Result
from hushtune.space import Candidates, Choice, FloatArray, Numeric, Space
from hushtune.svg import COLOURS, Axis, Box, polyline, text

_MOST_SHOWN = 120  # candidates in the plot of counts; the table has them all
_MOST_DOTS = 3_000  # in a panel of pairs; with more, every second or third of each client's
_WIDTH = 900.0


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
    box = Box(60, 20, _WIDTH - 80, 260)
    parts = _levels(box, up)
    width = box.width / len(order)
    for place, at in enumerate(order):
        x, y = box.place(across, up, (place + 0.5, values[at]))
        top, bottom = (box.place(across, up, (0, values[at] + sign * 2 * deviation))[1] for sign in (1, -1))
        chosen = " chosen" if at == result.index else ""
        tip = f"candidate {at}: {_words(result.candidates[int(at)])}; {name} {values[at]}; smoothed {mean[at]:.1f}"
        marks = [
            f'<rect class="band{chosen}" x="{x - width * 0.4:.1f}" y="{top:.1f}" width="{width * 0.8:.1f}" '
            f'height="{max(0.5, bottom - top):.1f}"/>',
            f'<circle class="opened{chosen}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>',
        ]
        centre, above, below = (box.place(across, up, (0, mean[at] + s * spread[at]))[1] for s in (0, 1, -1))
        marks.append(f'<line class="posterior" x1="{x:.1f}" y1="{above:.1f}" x2="{x:.1f}" y2="{below:.1f}"/>')
        marks.append(f'<path class="posterior" d="M{x:.1f} {centre - 4:.1f}l4 4l-4 4l-4 -4z"/>')
        parts.append(f'<g class="candidate"><title>{escape(tip)}</title>{"".join(marks)}</g>')
    shown = f"candidates by {name}, largest first"
    if len(order) < len(values):
        shown += f" ({len(order)} of {len(values)} shown)"
    parts.append(text(box.left + box.width / 2, box.top + box.height + 24, shown, "middle"))
    return svg_of("plot-counts", 310, parts)


def loudness_plot(result: Result) -> str:
    """The norm of every opened vector of agents' weights, beside that of noise alone; empty if there are none."""
    opened = [one for one in result.opened if one.query == AgentVectors.name]
    if not opened:
        return ""
    norms = [float(np.linalg.norm(np.asarray(one.blocks["vectors"], dtype=np.float64))) for one in opened]
    noise = [(one.noise_variance * len(one.blocks["vectors"])) ** 0.5 for one in opened]
    up, across = Axis("", round_ticks(0.0, max(*norms, *noise, 1.0))), Axis("", (0.0, float(len(opened))))
    box = Box(60, 20, _WIDTH - 80, 120)
    parts = _levels(box, up)
    width = box.width / len(opened)
    for place, (norm, alone) in enumerate(zip(norms, noise, strict=True)):
        x, y = box.place(across, up, (place + 0.5, norm))
        tip = f"opening {place + 1}: {norm:.4g}" + (f"; noise alone {alone:.4g}" if alone else "")
        parts.append(
            f'<rect class="band" x="{x - width * 0.3:.1f}" y="{y:.1f}" width="{width * 0.6:.1f}" '
            f'height="{box.top + box.height - y:.1f}"><title>{escape(tip)}</title></rect>'
        )
    if any(noise):
        line = [box.place(across, up, (place + shift, alone)) for place, alone in enumerate(noise) for shift in (0, 1)]
        parts.append(polyline(line, "posterior"))
    parts.append(text(box.left + box.width / 2, box.top + box.height + 22, "openings, in order", "middle"))
    return svg_of("plot-loudness", 170, parts)


def _levels(box: Box, up: Axis) -> list[str]:
    """Lines across a plot, at the ticks of its upright axis."""
    parts = []
    for tick in up.ticks:
        y = box.top + (1 - up.at(tick)) * box.height
        parts.append(f'<line class="grid" x1="{box.left}" y1="{y:.1f}" x2="{box.left + box.width}" y2="{y:.1f}"/>')
        parts.append(text(box.left - 6, y + 4, f"{tick:,g}", "end"))
    return parts


def _smoothed(result: Result, values: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """As `Vote(decode="smooth")` does it; what the noise-free sum adds up to may be public."""
    total = method_from_json(result.method).total(result.candidates, result.answered)
    found = smooth(np.asarray(values), total, result.opened[-1].noise_variance, result.candidates)
    return found.mean, found.deviation


def pairs_plot(result: Result) -> str:
    """A panel per knob: every opened pair by the knob's value and its loss; a line where the chosen config lies."""
    space, pairs = result.candidates.space, result.pairs()
    losses = np.concatenate([own.losses for own in pairs.values()])
    ends = round_ticks(float(losses.min()), max(float(losses.max()), float(losses.min()) + 1e-6))
    up, across = Axis("loss", ends), Axis("", (0.0, 1.0))
    chosen = space.encode([result.config])
    each, every = min(3, len(space.knobs)), -(-len(losses) // _MOST_DOTS)
    parts = []
    for number, name in enumerate(space.knobs):
        width, height = (_WIDTH - 60) / each, 200.0
        box = Box(60 + (number % each) * width, 30 + (number // each) * (height + 70), width - 40, height)
        for tick in up.ticks:
            y = box.place(across, up, (0, tick))[1]
            parts.append(f'<line class="grid" x1="{box.left}" y1="{y:.1f}" x2="{box.left + box.width}" y2="{y:.1f}"/>')
            if number % each == 0:
                parts.append(text(box.left - 6, y + 4, f"{tick:,.3g}", "end"))
        x = box.place(across, up, (_along(space, name, chosen)[0], 0))[0]
        parts.append(f'<line class="chosen-at" x1="{x:.1f}" y1="{box.top}" x2="{x:.1f}" y2="{box.top + height}"/>')
        for at, (client, own) in enumerate(pairs.items()):
            places = zip(_along(space, name, own.points)[::every], own.losses[::every], strict=True)
            dots = (box.place(across, up, (float(value), float(loss))) for value, loss in places)
            circles = "".join(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2"/>' for px, py in dots)
            parts.append(f'<g class="pair s{at % len(COLOURS)}"><title>{escape(client)}</title>{circles}</g>')
        parts.append(text(box.left + box.width / 2, box.top + height + 36, name, "middle"))
        for word, place in knob_ends(space, name):
            parts.append(text(box.left + place * box.width, box.top + height + 18, word, "middle"))
    rows = -(-len(space.knobs) // each)
    return svg_of("plot-pairs", 30 + rows * 270.0, parts)


def knob_ends(space: Space, name: str) -> list[tuple[str, float]]:
    """What stands below a knob's axis: its ends, or all its choices."""
    knob = space.knobs[name]
    if isinstance(knob, Choice):
        return [(_short(choice), at / max(1, len(knob.choices) - 1)) for at, choice in enumerate(knob.choices)]
    assert isinstance(knob, Numeric)
    return [(_short(knob.low), 0.0), (_short(knob.high), 1.0)]


def _along(space: Space, name: str, points: FloatArray) -> FloatArray:
    """Where points lie on a knob's axis, from 0 to 1."""
    columns = points[:, space.columns[name]]
    if isinstance(space.knobs[name], Choice):
        return np.asarray(columns.argmax(axis=1) / max(1, columns.shape[1] - 1))
    return np.asarray(columns[:, 0])


def parallel_plot(result: Result, name: str, values: Sequence[int]) -> str:
    """One line per candidate through its knobs and its value."""
    candidates, places = result.candidates, _places(result.candidates)
    top, height, left, right = 40.0, 240.0, 90.0, _WIDTH - 90
    knobs = list(places)
    xs = np.linspace(left, right, len(knobs) + 1)
    low, high = float(min(values)), float(max(values))
    strength = (np.asarray(values, dtype=np.float64) - low) / max(high - low, 1.0)
    parts = []
    for x, knob in zip(xs, [*knobs, name], strict=True):
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + height}"/>')
        parts.append(text(x, top - 20, knob, "middle"))
    for x, knob in zip(xs, knobs, strict=False):
        for label, at in _labels(candidates, knob, places[knob]):
            parts.append(text(x - 6, top + (1 - at) * height + 4, label, "end"))
    parts += [text(xs[-1] + 6, top + 4, f"{high:g}"), text(xs[-1] + 6, top + height + 4, f"{low:g}")]
    for at in np.argsort(strength, kind="stable"):
        points = [(x, top + (1 - places[knob][at]) * height) for x, knob in zip(xs, knobs, strict=False)]
        points.append((xs[-1], top + (1 - strength[at]) * height))
        chosen = at == result.index
        style = "candidate-line chosen" if chosen else "candidate-line"
        line = polyline(points, style).replace(
            "/>", f' style="opacity:{1 if chosen else 0.08 + 0.5 * strength[at] ** 2:.2f}">'
        )
        tip = f"candidate {at}: {_words(candidates[int(at)])}; {name} {values[at]}"
        parts.append(f"{line}<title>{escape(tip)}</title></polyline>")
    return svg_of("plot-parallel", 310, parts)


def _places(candidates: Candidates) -> dict[str, FloatArray]:
    """Where each candidate lies on each knob's axis, from 0 to 1."""
    return {name: _along(candidates.space, name, candidates.encoded) for name in candidates.space.knobs}


def _labels(candidates: Candidates, knob: str, places: FloatArray) -> list[tuple[str, float]]:
    """A few values of a knob and where they lie."""
    seen = {round(float(place), 6): _short(candidates[at][knob]) for at, place in enumerate(places)}
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


def svg_of(name: str, height: float, parts: Sequence[str]) -> str:
    """A plot of the page's width."""
    body = "\n".join(parts)
    return f'<svg id="{name}" class="plot" role="img" viewBox="0 0 {_WIDTH:g} {height:g}">\n{body}\n</svg>'


def round_ticks(low: float, high: float) -> list[float]:
    """Round numbers that cover the range."""
    raw = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(step * power for step in (1, 2, 5, 10) if step * power >= raw))
    return [step * at for at in range(int(np.floor(low / step)), int(np.ceil(high / step)) + 1)]


def _short(value: Any) -> str:
    shown = f"{value:.3g}" if isinstance(value, float) else str(value)
    return shown if len(shown) <= 12 else shown[:11] + "…"


def _words(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in config.items())
