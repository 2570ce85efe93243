from __future__ import annotations

import inspect

import pytest

import hushtune as ht
from hushtune.core import errors
from hushtune.core.errors import HushtuneError, MissingExtraError, described, missing

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, BaseException)]


def test_one_root_catches_everything() -> None:
    assert len(ALL) > 10
    assert all(issubclass(kind, HushtuneError) for kind in ALL)


def test_a_wrong_setting_and_a_missing_extra_are_also_what_python_programs_expect() -> None:
    assert issubclass(ht.SettingError, ValueError)
    assert issubclass(MissingExtraError, ImportError)
    assert not issubclass(HushtuneError, (ValueError, OSError, ImportError))


def test_what_a_limit_refuses_can_be_caught_apart_from_other_trouble_with_a_ledger() -> None:
    assert issubclass(ht.BudgetError, ht.LedgerError)
    assert not issubclass(ht.SpentError, ht.AbortedError)
    assert not issubclass(ht.AbortedError, ht.SpentError)


@pytest.mark.parametrize("extra", ["torch", "dpsgd", "flower"])
def test_a_missing_extra_is_one_line_that_can_be_pasted(extra: str) -> None:
    error = missing("TorchObjective", extra, ImportError("No module\nnamed   'x'"))
    assert "\n" not in str(error)
    assert str(error).startswith("TorchObjective needs ")
    assert str(error).endswith(f"but got: No module named 'x'; run `pip install 'hushtune[{extra}]'`")


def test_an_error_is_described_even_if_its_text_raises() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert described(ValueError("text")) == "ValueError: text"
    assert described(Broken()) == "Broken"
