"""`hushtune identity`: signing keys, and the roster that pins them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.options import Json, print_json

identity_app = typer.Typer(help="Make and show a client's signing key, and pin keys in a roster.", no_args_is_help=True)


@identity_app.command("new")
def identity_new(
    path: Annotated[Path, typer.Argument(help="Where the secret key goes; never overwritten.")], json: Json = False
) -> None:
    """Make a client's signing key. The file stays with the client."""
    from hushtune.core.identity import Identity

    identity = Identity.new()
    identity.save(path)
    public = identity.public.hex()
    if json:
        print_json({"path": str(path), "public": public})
    else:
        print(f"made {path}; public key: {public}")


@identity_app.command("show")
def identity_show(
    path: Annotated[Path, typer.Argument(help="A file made by `hushtune identity new`.")], json: Json = False
) -> None:
    """Print the public key, for the roster."""
    from hushtune.core.identity import Identity

    public = Identity.load(path).public.hex()
    if json:
        print_json({"path": str(path), "public": public})
    else:
        print(public)


@identity_app.command("roster")
def identity_roster(
    path: Annotated[Path, typer.Argument(help="Where the roster goes; never overwritten.")],
    client: Annotated[list[str], typer.Argument(help="NAME=PUBLICKEY for every client, in order.")],
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PUBLICKEY@HOST:PORT",
            help="A node that computes for the clients (hushtune node); 3, 5 or 7 of them, in order, or none.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Pin the clients' public keys, and those of any nodes, in a roster file, to be given to all of them."""
    import os

    from hushtune.core.errors import SettingError
    from hushtune.core.files import create_once
    from hushtune.core.roster import Roster, node_entry
    from hushtune.core.words import counted
    from hushtune.seals.quorum.sharing import crowd

    names, keys = zip(*map(_pinned, client), strict=True)
    nodes = tuple(node_entry(name, text) for name, _, text in (entry.partition("=") for entry in node or ()))
    if nodes:
        crowd(len(nodes))
    roster = Roster(names, keys, os.urandom(32), nodes)
    if not create_once(path, roster.save):
        raise SettingError(
            f"{path} exists already, and a roster is never overwritten, as clients hold on to it; "
            "give another path, or remove the file if nobody has it yet"
        )
    if json:
        named = [entry.name for entry in nodes]
        print_json({"path": str(path), "clients": names, "nodes": named, "digest": roster.digest()})
    else:
        print(
            f"made {path} with {counted(len(keys), 'client')}"
            + (
                f" and {counted(len(nodes), 'node')}; give it to every client and node"
                if nodes
                else "; give it to every client"
            )
            + " by a way the server does not control"
        )


def _pinned(entry: str) -> tuple[str, bytes]:
    """A client's name and public key."""
    from hushtune.core.errors import SettingError

    name, _, text = entry.partition("=")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingError(
            f"a client must be NAME=PUBLICKEY, with the 64 hex digits that `hushtune identity show` prints, but got "
            f"'{entry}'"
        )
    return name, key
