"""Nodes of a quorum as programs: how each organisation runs its own, and how a coordinator reaches all of them.

`inside.py` is the process that holds a node's keys and shares; it has pipes and no network. `front.py` listens for it
and holds neither, only a certificate of some days; `reach.py` is the coordinator's side. Frames (`streams.py`) carry
messages as they are: of what they say, `guard.py` reads whose run they belong to, and nobody else anything.
"""
