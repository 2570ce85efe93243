"""The command line. Importing it is cheap: commands load what they need when they run."""

from __future__ import annotations

import sys

EXIT_CODES = {
    0: "done",
    1: "verify found a claim that does not hold",
    2: "bad input or a refusal: nothing was spent",
    3: "aborted: too few clients answered; nothing was opened",
    130: "interrupted; the same command resumes",
}


def main() -> None:
    """Runs the command line; a known error is one line on the error stream and an exit code."""
    from hushtune.cli.app import app
    from hushtune.errors import AbortedError, HushtuneError

    try:
        app()
    except AbortedError as error:
        _fail(f"aborted: {error}", 3)
    except HushtuneError as error:
        _fail(f"error: {error}", 2)
    except KeyboardInterrupt:
        _fail("interrupted: what was scored is kept; the same command resumes", 130)


def _fail(message: str, code: int) -> None:
    print(" ".join(message.split()), file=sys.stderr)
    sys.exit(code)
