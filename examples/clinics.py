"""Three clinics choose an SVM's C and gamma; three nodes open the winner only. docs/quorum.md has what comes before.

python examples/clinics.py keys/roster.toml keys runs/clinics
"""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.svm import SVC

import hushtune as ht
from hushtune.data import load
from hushtune.data.splits import shares


def main(roster_file: str, keys: str, folder: str) -> None:
    roster = ht.Roster.load(roster_file)  # names clients and nodes
    rows = shares("iid", load("digits").train, clients=len(roster), seed=0)
    clients = [
        ht.Client(own, ht.SklearnObjective(SVC()), name=name, identity=ht.Identity.load(Path(keys, f"{name}.key")))
        for name, own in zip(roster.ids, rows, strict=True)
    ]
    space = ht.Space(C=ht.Float(1e-2, 1e3, log=True), gamma=ht.Float(1e-4, 10.0, log=True))
    result = ht.tune(
        clients,
        space.grid(C=4, gamma=5),
        method=ht.Vote(voters=30),  # each clinic's rows cast 30 ballots, and each row is protected
        privacy=ht.Privacy(epsilon=1.0, delta=0, unit="record"),
        seal=ht.Quorum(),
        roster=roster,
        folder=folder,
    )
    print(result.config)
    print(result.statement)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except ht.HushtuneError as error:
        sys.exit(f"{type(error).__name__}: {error}")
