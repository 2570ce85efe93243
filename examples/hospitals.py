"""Eight hospitals with a thousand patients each, some of whom come twice. Made-up data; needs no download."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import hushtune as ht

HOSPITALS, PATIENTS, FEATURES = 8, 1_000, 12


def hospital(number: int) -> ht.Client:
    """One hospital: its own machines (each measures on a scale of its own), and every third patient comes twice."""
    rng = np.random.default_rng(number)
    x, y = make_classification(
        HOSPITALS * PATIENTS, FEATURES, n_informative=5, n_clusters_per_class=3, flip_y=0.05, random_state=0
    )
    mine = slice(number * PATIENTS, (number + 1) * PATIENTS)
    patients = np.arange(PATIENTS)
    visits = np.sort(np.concatenate([patients, patients[::3]]))
    measured = x[mine][visits] * rng.uniform(0.5, 2.0, FEATURES) + rng.normal(0, 0.1, (len(visits), FEATURES))
    # Scaling is fitted inside each part: fitted on all rows, it would carry one patient's values to every voter.
    objective = ht.SklearnObjective(make_pipeline(StandardScaler(), SVC()), metric="balanced_accuracy", validation=0.3)
    return ht.Client(ht.Rows(measured, y[mine][visits], subjects=visits), objective, name=f"hospital-{number}")


def clients() -> list[ht.Client]:
    """What `factory` in hospitals.toml names."""
    return [hospital(number) for number in range(HOSPITALS)]
