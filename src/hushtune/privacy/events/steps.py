"""The former place of `PureTests`, which is in `answers.py`."""

from hushtune.privacy.events.answers import PureTests

__all__ = ["PureTests"]
