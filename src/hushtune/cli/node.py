"""`hushtune node`: one organisation's node of a quorum, as a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushtune.cli.options import Json, folder_named, print_json

if TYPE_CHECKING:
    from hushtune.core.roster import Roster


def node(
    listen: Annotated[
        list[str], typer.Option(metavar="HOST:PORT", help="Where the coordinator reaches it; port 0: any free one.")
    ],
    identity: Annotated[
        list[Path], typer.Option(metavar="FILE", help="The node's signing key (hushtune identity new).")
    ],
    roster: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="Who takes part (hushtune identity roster); it names this node's key."),
    ],
    name: Annotated[
        str | None, typer.Option(help="The node's name, if you want it checked. The roster has it.")
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", parser=folder_named, help="Runs are kept in nodes/NAME in there. Default: $HUSHTUNE_HOME."
        ),
    ] = None,
    keep_days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long a run is kept that nobody ends, after its last message.")
    ] = 30,
    json: Json = False,
) -> None:
    """Run a node of a quorum until Ctrl-C; started again, it goes on with the runs it keeps."""
    from hushtune.core.roster import Roster
    from hushtune.federation.local import default_home
    from hushtune.federation.nodes.front import Front, listening
    from hushtune.federation.nodes.own import Own
    from hushtune.federation.nodes.process import Process

    for option, values in (("listen", listen), ("identity", identity), ("roster", roster)):
        _check_once(option, values)
    known = Roster.load(roster[0])
    own = Own(name, identity[0].absolute(), (home or default_home()).absolute() / "nodes", keep_days, served=True)
    listener = listening(listen[0])
    process = Process(own, known)
    try:
        with closing(Front(process, listener)) as front:
            _say_ready(process.hello, listener.getsockname(), known, json)
            front.serve()
    except KeyboardInterrupt:
        if not json:
            print("the node has ended; it keeps its runs until it is started again", flush=True)
    finally:
        listener.close()
        process.close()


def _check_once(option: str, values: Sequence[object]) -> None:
    from hushtune.core.errors import SettingError

    if len(values) != 1:
        raise SettingError(
            f"a node must be given --{option} once, but got it {len(values)} times: leave out all but one"
        )


def _say_ready(hello: dict[str, str], place: tuple[str, int], roster: Roster, json: bool) -> None:
    """Says that it is ready, who it is, and where."""
    from hushtune.core.words import counted

    host, port = place[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    nodes, clients = len(roster.nodes), len(roster)
    if json:
        print_json({**hello, "address": address, "nodes": nodes, "clients": clients})
    else:
        print(
            f"{hello['name']} listens on {address}, one of {counted(nodes, 'node')} for {counted(clients, 'client')}; "
            f"it keeps runs in {hello['folder']}; Ctrl-C ends it"
        )
        told = next(entry.address for entry in roster.nodes if entry.name == hello["name"])
        if told != address:
            print(f"the roster says {told}: that is where coordinators look for it")
    sys.stdout.flush()
