"""What holders revealed of clients' secrets, and what it proves about whom.

The owner of a secret gives each of its shares a tag, which the server keeps and passes on with the encrypted share. An
honest holder reveals a share only if it has its tag. With a server that follows the protocol this proves:

- a share that was revealed and does not have its tag: the HOLDER is wrong, whatever the owner did;
- shares that all have their tags and do not give the secret that was committed to: the OWNER is wrong, since nobody
  else can make a share that has an honest owner's tag (SHA-256, a second preimage);
- a share that is not revealed, by a holder that replied: one of the two is wrong, and nobody can tell which. An honest
  owner's shares are withheld by wrong holders only: if they are more than the seal allows for, it is the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hushtune.core.errors import AbortedError, WireError
from hushtune.seals.masked import crypto, shamir
from hushtune.seals.masked.pact import Pact, to_numbers

TagOf = Callable[[int, int, str], bytes]
"""What the owner of a secret said that a holder's share of this kind is known by; empty if it has none."""

_MOST_NAMED = 5
_UNCLEAR = "revealed no share of one peer, or was given none"


@dataclass
class Revealed:
    """The shares that are what their owners said, by kind, and who sent others.

    Args:
        pact: the run's.
        points: of the holders of each client's secrets.
        late: those who could not be asked or did not help, and why; who sends wrong shares is added.
    """

    pact: Pact
    points: list[dict[int, int]]
    late: dict[int, str]
    replied: set[int] = field(default_factory=set)  # with shares that could be read
    wrong: set[int] = field(default_factory=set)
    shares: dict[str, dict[int, dict[int, bytes]]] = field(default_factory=lambda: {"seed": {}, "mask": {}})

    def add(self, holder: int, parts: list[bytes], tag_of: TagOf) -> None:
        """Keeps what one holder revealed, as far as it is what its owners said."""
        try:
            if len(parts) != 3:
                raise WireError("its shares must come in 3 parts")
            found = [to_numbers(piece, shamir.SHARE_BYTES) for piece in parts[:2]]
        except WireError:
            self.late[holder] = "its shares cannot be read"
            return
        self.replied.add(holder)
        for kind, table in zip(("seed", "mask"), found, strict=True):
            for owner, share in table.items():
                if crypto.tag(kind, holder, share) == tag_of(owner, holder, kind):
                    self.shares[kind].setdefault(owner, {})[self.points[owner][holder]] = share
                else:
                    self.wrong.add(holder)
                    self.late[holder] = "sent wrong shares"

    def secret(self, kind: str, owner: int, committed: Callable[[bytes], bool]) -> bytes:
        """One client's secret; AbortedError says by whose fault there is none.

        Args:
            kind: "seed" or "mask".
            owner: the client whose secret it is.
            committed: whether a secret is the one that its owner committed to.
        """
        found, threshold = self.shares[kind].get(owner, {}), self.pact.shape.threshold
        if len(found) < threshold:
            raise self._too_few(found, owner)
        try:
            secret = shamir.join(found, threshold)
        except WireError:
            secret = b""
        if not secret or not committed(secret):
            raise AbortedError(f"'{self._name(owner)}' shared out another secret than it committed to; leave it out")
        return secret

    def _too_few(self, found: Mapping[int, bytes], owner: int) -> AbortedError:
        """Names the owner only if so many others miss its shares that an honest one must be among them."""
        holders = {holder for holder, point in self.points[owner].items() if point not in found}
        withheld = holders & (self.replied - self.wrong)
        if len(withheld) > max(1, self.pact.shape.wrong):
            return AbortedError(
                f"'{self._name(owner)}' gave {len(withheld)} of its peers shares that are of no use; leave it out"
            )
        named = sorted(n for n in holders if n in self.late or n in withheld)
        reasons = [f"{self._name(n)}: {self.late.get(n, _UNCLEAR)}" for n in named[:_MOST_NAMED]]
        reasons += [f"and {len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
        return AbortedError(
            f"{self.pact.shape.threshold} good shares of every secret must be there to unmask the sum, but got "
            f"{len(found)} of one; {'; '.join(reasons)}"
        )

    def _name(self, number: int) -> str:
        return str(self.pact.roster.ids[number])
