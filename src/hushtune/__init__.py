"""hushtune: tune hyperparameters across parties that may not show each other their data.

>>> import hushtune as ht
>>> space = ht.Space(lr=ht.Float(1e-4, 1.0, log=True), momentum=ht.Choice([0.0, 0.9]))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hushtune._version import __version__

if TYPE_CHECKING:
    from hushtune.client import Client
    from hushtune.comparing import compare
    from hushtune.comparison import Arm, Comparison
    from hushtune.errors import (
        AbortedError,
        BudgetError,
        HushtuneError,
        LedgerError,
        RefusedError,
        SettingError,
        SpentError,
    )
    from hushtune.fitted import Fitted
    from hushtune.fitting import fit
    from hushtune.identity import Identity
    from hushtune.methods.combine import Combine
    from hushtune.methods.propose import NoisyMax, ProposeTest
    from hushtune.methods.surface import Surface
    from hushtune.methods.thompson import Thompson
    from hushtune.methods.vote import Vote
    from hushtune.objectives.base import Objective, objective
    from hushtune.objectives.neural import TorchObjective as TorchObjective
    from hushtune.objectives.sklearn import SklearnObjective
    from hushtune.odds import Agreement
    from hushtune.planning import plan
    from hushtune.privacy.guarantee import Privacy
    from hushtune.privacy.ledger import Ledger
    from hushtune.privacy.policy import Policy
    from hushtune.reporting import report
    from hushtune.result import Result
    from hushtune.roster import Roster
    from hushtune.rows import Rows, Split
    from hushtune.seals.clear import Clear
    from hushtune.seals.curator import Curator
    from hushtune.seals.masked import Masked
    from hushtune.seals.threshold import Threshold
    from hushtune.search import Search
    from hushtune.simulation import Simulation
    from hushtune.space import Candidates, Choice, Config, Float, Int, Space
    from hushtune.training.dpsgd import DPSGD as DPSGD
    from hushtune.training.trying import RepeatAndSelect, TryAll, Untuned
    from hushtune.tuning import tune
    from hushtune.verification import verify
    from hushtune.voting import Plan

_HOMES = {
    "client": ["Client"],
    "comparing": ["compare"],
    "comparison": ["Arm", "Comparison"],
    "errors": [
        "AbortedError",
        "BudgetError",
        "HushtuneError",
        "LedgerError",
        "RefusedError",
        "SettingError",
        "SpentError",
    ],
    "identity": ["Identity"],
    "methods.combine": ["Combine"],
    "methods.surface": ["Surface"],
    "fitted": ["Fitted"],
    "fitting": ["fit"],
    "methods.propose": ["NoisyMax", "ProposeTest"],
    "methods.thompson": ["Thompson"],
    "methods.vote": ["Vote"],
    "training.dpsgd": ["DPSGD"],
    "training.trying": ["RepeatAndSelect", "TryAll", "Untuned"],
    "odds": ["Agreement"],
    "planning": ["plan"],
    "objectives.base": ["Objective", "objective"],
    "objectives.neural": ["TorchObjective"],
    "objectives.sklearn": ["SklearnObjective"],
    "privacy.guarantee": ["Privacy"],
    "privacy.ledger": ["Ledger"],
    "privacy.policy": ["Policy"],
    "reporting": ["report"],
    "result": ["Result"],
    "roster": ["Roster"],
    "rows": ["Rows", "Split"],
    "seals.clear": ["Clear"],
    "seals.curator": ["Curator"],
    "seals.masked": ["Masked"],
    "seals.threshold": ["Threshold"],
    "search": ["Search"],
    "simulation": ["Simulation"],
    "space": ["Candidates", "Choice", "Config", "Float", "Int", "Space"],
    "tuning": ["tune"],
    "verification": ["verify"],
    "voting": ["Plan"],
}
_MODULES = ("data", "flower", "training")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AbortedError",
    "Agreement",
    "Arm",
    "BudgetError",
    "Candidates",
    "Choice",
    "Clear",
    "Client",
    "Combine",
    "Comparison",
    "Config",
    "Curator",
    "Fitted",
    "Float",
    "HushtuneError",
    "Identity",
    "Int",
    "Ledger",
    "LedgerError",
    "Masked",
    "NoisyMax",
    "Objective",
    "Plan",
    "Policy",
    "Privacy",
    "ProposeTest",
    "RefusedError",
    "RepeatAndSelect",
    "Result",
    "Roster",
    "Rows",
    "Search",
    "SettingError",
    "Simulation",
    "SklearnObjective",
    "Space",
    "SpentError",
    "Split",
    "Surface",
    "Thompson",
    "Threshold",
    "TryAll",
    "Untuned",
    "Vote",
    "__version__",
    "compare",
    "fit",
    "objective",
    "plan",
    "report",
    "tune",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Loads public names when they are first used, so that importing hushtune is instant."""
    if name in _MODULES:
        return import_module(f"hushtune.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hushtune' has no attribute '{name}'")
    module = import_module(f"hushtune.{_HOME_OF[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
