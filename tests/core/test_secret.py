"""A client's secret: made once, its owner's only, and a pseudo-random function of what it is asked for."""

import pytest

from hushtune.core.errors import CacheError
from hushtune.core.secret import Secret


def test_a_secret_is_made_once(tmp_path):
    first = Secret.kept(tmp_path / "clients" / "a")
    assert Secret.kept(tmp_path / "clients" / "a").derived("x") == first.derived("x")
    assert Secret.kept(tmp_path / "clients" / "b").derived("x") != first.derived("x")


def test_its_file_is_its_owners_only(tmp_path):
    Secret.kept(tmp_path).derived("x")
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


def test_what_is_derived_depends_on_purpose_and_on_every_item():
    secret = Secret(lambda: bytes(32))
    found = {
        secret.derived("noise"),
        secret.derived("ties"),
        secret.derived("noise", b"ab", b"c"),
        secret.derived("noise", b"a", b"bc"),
        secret.derived("noise", b"abc"),
        secret.derived("noise", b"abc", b""),
        Secret(lambda: b"\1" * 32).derived("noise"),
    }
    assert len(found) == 7
    assert secret.derived("noise", b"ab", b"c") in found


def test_a_damaged_file_is_refused_and_never_replaced(tmp_path):
    (tmp_path / "secret.key").write_text("nothing of the kind\n")
    with pytest.raises(CacheError, match="must be a secret that hushtune made"):
        Secret.kept(tmp_path).derived("x")
    assert (tmp_path / "secret.key").read_text() == "nothing of the kind\n"


def test_it_does_not_show_itself():
    assert "00" not in repr(Secret(lambda: bytes(32)))


def test_a_simulated_secret_is_a_function_of_seed_and_name():
    derived = Secret.simulated(7, "a").derived("x")
    assert Secret.simulated(7, "a").derived("x") == derived
    assert len({derived, *(Secret.simulated(seed, name).derived("x") for seed, name in [(8, "a"), (7, "b")])}) == 3
