"""One of three parties of stock MPyC that compare numbers of parties 1 and 2. Party 0 has none: it follows the
protocol, and prints what it saw. A program of its own: MPyC reads the command line."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from typing import Any

import numpy as np
from mpyc import thresha
from mpyc.runtime import Runtime, mpc

LOOPBACK = "127.0.0.1"
BITS, COUNT = 10, 32
NUMBERS = mpc.SecInt(BITS)

opened: list[tuple[int, Any]] = []  # the points of every opening, and what came of it
tested: list[Any] = []  # own shares of what was tested for zero

recombine, is_zero_public = thresha.np_recombine, Runtime.np_is_zero_public


def recombined(field: Any, points: Any, x_rs: Any = 0) -> Any:
    value = recombine(field, points, x_rs)
    opened.append(({at: [int(one) for one in share] for at, share in points}, [int(one) for one in value.value]))
    return value


def noted(self: Any, numbers: Any) -> Any:
    tested.append(numbers)
    return is_zero_public(self, numbers)


async def main(own: list[int]) -> None:
    loop = asyncio.get_running_loop()
    loop.create_server = functools.partial(loop.create_server, host=LOOPBACK)  # it would listen on all interfaces
    async with mpc:
        given = NUMBERS.array(np.array(own))
        one, other = (mpc.input(given, senders=sender) for sender in (1, 2))
        thresha.np_recombine, Runtime.np_is_zero_public = recombined, noted
        await mpc.output(one < other)
    if mpc.pid == 0:
        share = tested[-1].share
        share = share.result() if asyncio.isfuture(share) else share
        product = [points for points, value in opened if len(points) == 3 and len(value) == COUNT][-1]
        masked = next(value for points, value in opened if len(points) == 2 and len(value) == COUNT)
        seen = {"product": product, "share": [int(one) for one in share.value.ravel()], "masked": masked}
        print(json.dumps({"prime": int(NUMBERS.field.modulus), **seen}))


mpc.run(main(json.load(sys.stdin)))
