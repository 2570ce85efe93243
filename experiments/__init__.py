"""The experiments of the papers, repeated, and benchmarks of speed: what the figures in docs/results are made with.

One folder for each paper, and `speed` for what is timed. Each folder has its commands in `commands.py`, which load what
they need when they run; `python -m experiments NAME`, at the repository's root, runs one of them. Commands print rows,
or with `--json` one object with `rows` and the machine they ran on. The package hushtune knows nothing of this one.
"""
