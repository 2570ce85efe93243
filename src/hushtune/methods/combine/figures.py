"""What a report shows of configs that were combined: the cells that are dense, and the clusters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushtune.core.arrays import FloatArray
from hushtune.core.plots import knob_ends, svg_of
from hushtune.core.space import Choice, Config, Space
from hushtune.core.svg import Area, text
from hushtune.methods.combine.cells import Cells
from hushtune.methods.combine.strategies import config_at
from hushtune.methods.combine.tallies import means_of
from hushtune.methods.figures import Figure, Opening, Told, notes_figure, value_text

if TYPE_CHECKING:
    from hushtune.methods.combine.method import Combine


def figures_of(method: Combine, told: Told) -> list[Figure]:
    """Dense cells, the clusters, and what the method noted."""
    found, knobs = clusters(method, told), list(told.candidates.space.knobs)
    rows = [(n, *(value_text(config[k]) for k in knobs), f"{score:.4g}") for n, (config, score) in enumerate(found, 1)]
    words = "Cells of the grid over the clients' good configs; dense ones are marked, the diamond is the chosen config."
    cells = cells_plot(method, told)
    centres = "The clusters' centres and mean scores, the best first; only opened values are used."
    return [
        *([Figure(words, cells)] if cells else []),
        Figure(centres, columns=("cluster", *knobs, "mean score"), rows=tuple(rows)),
        notes_figure(told, "computed from what was opened"),
    ]


def cells_plot(method: Combine, told: Told) -> str:
    """The grid over two knobs: dense cells, what is known of the others, and where the chosen config lies.

    Empty if there is no grid, or not over two knobs.
    """
    space = method.space(told.candidates)
    if method.strategy != "dbscan" or len(space.knobs) != 2:
        return ""
    cells, values = Cells(space, method.cell), np.asarray(told.opened[0].blocks["counts"], dtype=np.float64)
    dense = _dense(told, method, values).reshape(cells.shape)
    shade = np.clip(values / max(1.0, float(values.max())), 0, 1).reshape(cells.shape)
    (across, up), area = tuple(space.knobs), Area(150, 20, 420, 300)
    parts = []
    for (column, row), known in np.ndenumerate(values.reshape(cells.shape)):
        is_dense, known_too = dense[column, row], "" if told.opened[0].form else f", opened {known:g}"
        tip = f"{'dense' if is_dense else 'not dense'}{known_too}"
        strong = 0.15 + 0.7 * shade[column, row]
        style = f'class="cell{" chosen" if is_dense else ""}" fill-opacity="{strong:.2f}"'
        (left, right), (low, high) = _span(cells, across, column), _span(cells, up, row)
        corner = f'x="{area.left + left * area.width:.1f}" y="{area.top + (1 - high) * area.height:.1f}"'
        size = f'width="{(right - left) * area.width - 1:.1f}" height="{(high - low) * area.height - 1:.1f}"'
        parts.append(f"<rect {style} {corner} {size}><title>{escape(tip)}</title></rect>")
    x, y = (_place(space, name, told.config) for name in (across, up))
    px, py = area.left + x * area.width, area.top + (1 - y) * area.height
    parts.append(f'<path class="posterior" d="M{px:.1f} {py - 7:.1f}l7 7l-7 7l-7 -7z"><title>chosen</title></path>')
    for word, place in knob_ends(space, across):
        parts.append(text(area.left + place * area.width, area.top + area.height + 20, word, "middle"))
    for word, place in knob_ends(space, up):
        parts.append(text(area.left - 8, area.top + (1 - place) * area.height + 4, word, "end"))
    parts.append(text(area.left + area.width / 2, area.top + area.height + 42, across, "middle"))
    parts.append(text(area.left - 8, area.top + area.height / 2, up, "end"))
    return svg_of("plot-cells", 370, parts)


def clusters(method: Combine, told: Told) -> list[tuple[Config, float]]:
    """The clusters' centres and mean scores, as far as what was opened tells."""
    space, opened = method.space(told.candidates), told.opened[-1]
    quotients = _quotients(opened)
    groups = len(quotients) // (space.width + 1)
    centres, scores = means_of(quotients, groups)
    found = [(config_at(space, centre), float(score)) for centre, score in zip(centres, scores, strict=True)]
    return sorted(found, key=lambda one: -one[1])


def _quotients(opened: Opening) -> FloatArray:
    sums = np.asarray(opened.blocks["sums"], dtype=np.float64)
    if opened.form is not None:
        return sums
    counts = np.maximum(np.asarray(opened.blocks["counts"], dtype=np.float64), max(1.0, opened.noise_variance**0.5))
    return np.asarray(sums / np.tile(counts, len(sums) // len(counts)))


def _dense(told: Told, method: Combine, values: FloatArray) -> NDArray[np.bool_]:
    if told.opened[0].form is not None:
        return np.asarray(values > 0)
    return method.dense(values, told.candidates, told.opened[0].noise_variance)


def _span(cells: Cells, name: str, number: int) -> tuple[float, float]:
    """From where to where a cell reaches on an axis; the last one may be narrower."""
    knob = cells.space.knobs[name]
    edge = 1 / len(knob.choices) if isinstance(knob, Choice) else cells.edge
    return number * edge, min(1.0, (number + 1) * edge)


def _place(space: Space, name: str, config: Config) -> float:
    """Where a config lies on an axis."""
    columns, knob = space.encode([config])[0, space.columns[name]], space.knobs[name]
    if isinstance(knob, Choice):
        return float((columns.argmax() + 0.5) / len(columns))
    return float(columns[0])
