"""Who holds what after a split: a table and a picture, for simulations and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.client.rows import Rows
from hushtune.core import svg
from hushtune.core.files import replace

_MOST_LABELS = 12


@dataclass(frozen=True)
class Holdings:
    """Numbers of rows by client and label.

    Args:
        labels: in order.
        counts: shape (clients, labels).
    """

    labels: tuple[str, ...]
    counts: NDArray[np.int64]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per client."""
        return [
            {"client": number, "rows": int(own.sum()), **dict(zip(self.labels, own.tolist(), strict=True))}
            for number, own in enumerate(self.counts)
        ]

    def table(self) -> str:
        """One line per client, aligned."""
        head = ["client", "rows", *self.labels]
        lines = [head, *([str(value) for value in row.values()] for row in self.rows())]
        widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
        return "\n".join("  ".join(f"{text:>{w}}" for text, w in zip(line, widths, strict=True)) for line in lines)

    def draw(self, path: Path) -> None:
        """Clients from left to right, labels from top to bottom: the larger a dot, the more rows.

        Args:
            path: of the SVG file to write.
        """
        clients, labels = self.counts.shape
        step = max(8.0, min(26.0, 760 / clients))
        left, top, largest = 90.0, 40.0, max(1, int(self.counts.max()))
        parts = [svg.text(left, 20, f"{clients} clients; the largest dot is {largest} rows of one label")]
        for row, label in enumerate(self.labels):
            y = top + (row + 0.5) * 24
            parts.append(svg.text(left - 10, y + 4, label, "end"))
            for client in range(clients):
                if count := int(self.counts[client, row]):
                    radius = max(0.8, min(step, 24) * 0.48 * (count / largest) ** 0.5)
                    parts.append(svg.dot(left + (client + 0.5) * step, y, radius))
        parts.append(svg.text(left, top + labels * 24 + 22, "client 0"))
        right = left + clients * step
        parts.append(svg.text(right, top + labels * 24 + 22, f"client {clients - 1}", "end"))
        replace(path, svg.picture(max(right + 20, 420), top + labels * 24 + 40, *parts))


def holdings(shares: Sequence[Rows]) -> Holdings:
    """Counts what each client holds. Beyond a dozen labels, or for numbers, twelve bands of them are told apart.

    Args:
        shares: each client's rows.
    """
    everything = np.concatenate([np.asarray(share.y) for share in shares])
    labels = np.unique(everything)
    if len(labels) <= _MOST_LABELS:
        names = tuple(str(label) for label in labels)
        places = [np.searchsorted(labels, np.asarray(share.y)) for share in shares]
    else:
        edges = np.unique(np.quantile(everything, np.linspace(0, 1, _MOST_LABELS + 1)))
        names = tuple(f"{low:g}..{high:g}" for low, high in pairwise(edges))
        places = [np.clip(np.searchsorted(edges, share.y, "right") - 1, 0, len(names) - 1) for share in shares]
    return Holdings(names, np.array([np.bincount(place, minlength=len(names)) for place in places]))
