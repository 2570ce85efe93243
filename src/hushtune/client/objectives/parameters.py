"""Which parameters of an estimator may be knobs, and with which values.

A request's knobs come from a server, and a parameter can be a path that rows are written to, a function, or a regular
expression that takes forever on one record. So values are allowed by what scikit-learn declares of a parameter
(`_parameter_constraints`), and what is not allowed is refused:

1. A value is a number, a boolean, None or a text. A text is one of those that scikit-learn lists. Where it takes any
   text, such as a path or a pattern, or an array or a function, none is allowed.
2. A parameter that has no plain values is no knob, and neither is one that holds a whole estimator, or whatever
   object the owner has put there: a request does not take an owner's own tokenizer away.
3. Some are never knobs, though their values are plain: they are about the machine, and not about the model.
4. Of a parameter that nobody declares (other libraries', one's own) numbers, booleans and None are allowed, and
   texts that the owner lists.

`random_state` is a knob: a run's seed is the server's in any case.
"""

from __future__ import annotations

import numbers
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution

from hushtune.client.objectives.options import Options, check_undeclared, values_of
from hushtune.core.errors import SettingError

# Jobs, verbosity, caches, copies (without one, a fit writes into the rows), and whether documents are paths.
_MACHINE = re.compile(
    r"(^|_)(n?jobs?|n?threads?|workers|cores?|cpus?|gpus?|process(es)?|dispatch|verbos\w*|silent|logging|memory|cache|copy)(_|$)|^input$"
)
# In names that scikit-learn does not declare: what reads or writes files, calls somebody, or chooses a device.
_OUTSIDE = re.compile(
    r"path|file|folder|regex|pattern|callback|snapshot|(^|_)(save|dirs?|directory|ur[il]s?|hosts?|ports?|devices?)(_|$)"
)


def check_parameter(estimator: Any, name: str, knob: BaseDistribution, options: Options) -> None:
    """Raises SettingError if a knob is no parameter that may be tuned, or has a value that it may not have.

    Args:
        estimator: the owner's.
        name: of the parameter, "svc__C" in a pipeline.
        knob: its type and values.
        options: texts that the owner allows, by name, for parameters that scikit-learn does not declare.
    """
    known = estimator.get_params()
    if name not in known:
        raise SettingError(
            f"knob '{name}' must be a parameter of {type(estimator).__name__}, but its parameters are {sorted(known)}"
        )
    holder, own = _place(estimator, known, name)
    if holder is not None and own not in holder.get_params(deep=False):
        raise SettingError(f"knob '{name}' would replace a whole step; tune the step's own parameters: '{name}__...'")
    declared = _declared(holder, own)
    if _MACHINE.search(own) or (declared is None and _OUTSIDE.search(own)):
        raise SettingError(f"knob '{name}' is about the machine, its files or what is shown, and so is never tuned")
    if not _plain(known[name]):
        raise SettingError(f"knob '{name}' holds an object of the client's owner, and so is never tuned")
    if declared is None:
        check_undeclared(name, knob, options)
        return
    if not any(_kind(one) not in ("None", None) for one in declared) or any(_is(one, "HasMethods") for one in declared):
        raise SettingError(f"knob '{name}' takes objects, functions, lists or any text, and so is never tuned")
    for value in values_of(knob):
        if not any(_admits(one, value) for one in declared):
            raise SettingError(f"knob '{name}' must be {_in_words(declared)}, but got {reprlib.repr(value)}")


def declares(estimator: Any, name: str) -> bool:
    """Whether scikit-learn says which values a parameter may have.

    Args:
        estimator: the owner's.
        name: of one of its parameters.
    """
    return _declared(*_place(estimator, estimator.get_params(), name)) is not None


def _place(estimator: Any, known: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """Whose parameter it is, and its name there; None, and its whole name, if the rest names no estimator."""
    outer, _, own = name.rpartition("__")
    holder = known.get(outer) if outer else estimator
    proper = hasattr(holder, "get_params") and not isinstance(holder, type)
    return (holder, own) if proper else (None, name)


def _declared(holder: Any, own: str) -> Sequence[Any] | None:
    """What scikit-learn declares of a parameter, without what it hides; None if nobody declares anything."""
    from sklearn.utils._param_validation import make_constraint

    table = getattr(holder, "_parameter_constraints", None)
    found = table.get(own) if isinstance(table, dict) else None
    if not isinstance(found, list):  # or "no_validation"
        return None
    made = [make_constraint(one) for one in found]
    return [one for one in made if not getattr(one, "hidden", False)]


def _plain(value: Any) -> bool:
    """Whether a parameter holds a plain value, or a few numbers, and no object of the owner's."""
    if isinstance(value, list | tuple):
        return all(isinstance(one, numbers.Number) for one in value)
    return value is None or isinstance(value, str | numbers.Number | np.generic)


# ---- one of scikit-learn's constraints ---------------------------------------------------------------


def _number(constraint: Any, value: Any) -> bool:
    return type(value) in (int, float) and isinstance(value, constraint.type)


def _listed(constraint: Any, value: Any) -> bool:
    return any(type(option) is type(value) and option == value for option in constraint.options)


def _boolean(constraint: Any, value: Any) -> bool:
    return type(value) is bool


def _none(constraint: Any, value: Any) -> bool:
    return value is None


def _mixed(constraint: Any, value: Any) -> bool:
    """A seed, a number of folds, what stands for a missing value: numbers of these, and no objects."""
    return (value is None or type(value) in (int, float)) and bool(constraint.is_satisfied_by(value))


_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "number": _number,
    "listed": _listed,
    "boolean": _boolean,
    "None": _none,
    "mixed": _mixed,
}
_KINDS = {  # by the class of the constraint; what is not here admits nothing
    "Interval": "number",
    "_InstancesOf": "number",
    "Options": "listed",
    "StrOptions": "listed",
    "_Booleans": "boolean",
    "_NoneConstraint": "None",
    "_RandomStates": "mixed",
    "_CVObjects": "mixed",
    "MissingValues": "mixed",
}


def _is(constraint: Any, kind: str) -> bool:
    return type(constraint).__name__ == kind


def _kind(constraint: Any) -> str | None:
    """Which of the plain kinds a constraint is; None if it is about objects, functions, lists or any text."""
    kind = _KINDS.get(type(constraint).__name__)
    if kind == "number" and not issubclass(constraint.type, numbers.Number):
        return None
    if kind == "listed" and not all(isinstance(one, str | numbers.Number) for one in constraint.options):
        return None
    return kind


def _admits(constraint: Any, value: Any) -> bool:
    """Whether a constraint admits a value, by its kind: how large a number may be is scikit-learn's business."""
    kind = _kind(constraint)
    return kind is not None and _CHECKS[kind](constraint, value)


def _in_words(declared: Sequence[Any]) -> str:
    """What a parameter may be, for a message."""
    found = []
    for one in declared:
        kind = _kind(one)
        if kind == "number":
            found.append("a whole number" if issubclass(one.type, numbers.Integral) else "a number")
        elif kind == "listed":
            found += sorted(map(repr, one.options))
        elif kind is not None:
            found.append({"boolean": "a boolean", "None": "None", "mixed": "a whole number"}[kind])
    return " or ".join(dict.fromkeys(found))
