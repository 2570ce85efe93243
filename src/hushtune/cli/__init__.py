"""The command line, and the reader of study files.

Importing it is cheap: commands load what they need when they run. What a command does lives in the packages below it.
"""

from __future__ import annotations

import logging
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import typer

_INTERRUPTED = 130
EXIT_CODES = {
    0: "done",
    1: "verify found a claim that does not hold",
    2: "bad input or a refusal: nothing was spent",
    3: "aborted: too few clients answered, a node did not, or what was opened is nothing that clients can send; "
    "see the message",
    4: "internal error",
    5: "failed after the run's cost was reserved: the message says what was opened, the ledgers have it",
    _INTERRUPTED: "interrupted; the same command resumes",
}


def main() -> None:
    """Runs the command line `hushtune`."""
    from hushtune.cli.app import app

    start(app, "hushtune")


def start(app: typer.Typer, program: str) -> NoReturn:
    """Runs commands and exits; a known error is one line on the error stream and an exit code.

    Args:
        app: the commands.
        program: what a person types before a command, for messages and help.
    """
    import click

    from hushtune.core.errors import AbortedError, HushtuneError, SpentError

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # workers are stopped as with Ctrl-C
    try:
        code = app(prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else program
        _fail(f"error: {error.format_message().rstrip('.')}; see `{where} --help`", 2)
    except AbortedError as error:
        _fail(f"aborted: {error}", 3)
    except SpentError as error:
        _fail(f"error: {error}", 5)
    except HushtuneError as error:
        _fail(f"error: {error}", 2)
    except OSError as error:
        _fail(f"error: {_told(error)}", 2)
    except (KeyboardInterrupt, click.Abort):
        code = _INTERRUPTED
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.INFO):
            raise
        _fail(f"internal error: {type(error).__name__}: {error}; run `{program} --verbose ...` to see where", 4)
    if code == _INTERRUPTED:  # what typer makes of Ctrl-C
        _fail("interrupted: what was scored is kept; the same command resumes", code)
    sys.exit(code)


def _told(error: OSError) -> str:
    """Which file, and what is wrong with it."""
    path, reason = error.filename2 or error.filename, error.strerror or str(error)
    return f"{path} cannot be used: {reason}" if path else reason


def _fail(message: str, code: int) -> NoReturn:
    print(" ".join(message.split()), file=sys.stderr)
    sys.exit(code)
