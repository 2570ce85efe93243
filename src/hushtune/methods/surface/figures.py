"""What a report shows of a surface: the clients' pairs, and how far the clients are apart."""

from __future__ import annotations

from hushtune.methods.figures import Figure, Told, notes_figure, pairs_figure

HETEROGENEOUS = 1.1  # gamma_p above which FLoRA's surfaces begin to lose (Tables 4 and 11)
_ADVICE = {
    False: "gamma_p is {:.2f}: the clients' best scores are close to each other, so any surface will do.",
    True: "gamma_p is {:.2f}: the clients' best scores differ much. The maximum of the local models, Surface('mplm'), "
    "degrades most gracefully then.",
}


def figures_of(told: Told) -> list[Figure]:
    """The pairs, what was computed from them, and FLoRA's advice on gamma_p (section 3)."""
    gamma = told.notes.get("gamma_p")
    advice = [Figure(_ADVICE[gamma > HETEROGENEOUS].format(gamma))] if isinstance(gamma, float) else []
    return [pairs_figure(told), notes_figure(told, "computed from the pairs"), *advice]
