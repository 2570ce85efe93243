"""What MPyC computes of numbers that come as JSON on stdin. A program of its own: MPyC reads the command line."""

from __future__ import annotations

import json
import sys
from typing import Any

from mpyc.runtime import mpc

NUMBERS = mpc.SecInt(96)


async def found(cases: dict[str, Any]) -> dict[str, Any]:
    """Places of the largest, which numbers are 0 or more, and whether quotients leave a rest below the divisor."""
    largest = [await mpc.output(mpc.argmax(list(map(NUMBERS, numbers)))[0]) for numbers in cases["largest"]]
    signs = await mpc.output([NUMBERS(number) >= 0 for number in cases["signs"]])
    right = []
    for above, below, quotient in cases["quotients"]:
        times = NUMBERS(quotient) * NUMBERS(below)
        rest = NUMBERS(above) - times
        right.append(await mpc.output((rest >= 0) * (rest < NUMBERS(below))))
    return {"largest": list(map(int, largest)), "signs": list(map(int, signs)), "quotients": list(map(int, right))}


print(json.dumps(mpc.run(found(json.load(sys.stdin)))))
