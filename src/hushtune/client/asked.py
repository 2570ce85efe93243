"""What a request would have a client train with: whether its owner, and then its objective, allow it."""

from __future__ import annotations

from collections.abc import Iterable

from hushtune.client.client import Client
from hushtune.client.objectives.base import check_space
from hushtune.client.search.base import Search
from hushtune.core.errors import RefusedError, SettingError
from hushtune.core.space import Config, Domain, Space
from hushtune.core.within import check_config, check_within


def check_asked(client: Client, search: Search, domain: Domain) -> None:
    """Raises RefusedError or SettingError, naming the knob, if there is a config that the client does not train with.

    Looks at no data, and loads none.

    Args:
        client: whose owner may have named a space, in a policy too.
        search: what would fill its trials.
        domain: over what.
    """
    for space in search.reach(domain):
        for own in _named(client):
            check_within(space, own)
        check_space(client.objective, space)


def allows(client: Client, search: Search, domain: Domain) -> bool:
    """Whether `check_asked` raises nothing."""
    try:
        check_asked(client, search, domain)
    except (RefusedError, SettingError):
        return False
    return True


def check_configs(client: Client, configs: Iterable[Config]) -> None:
    """Raises RefusedError, naming the knob, if the client's owner does not allow one of the configs.

    Args:
        client: whose owner may have named a space, in a policy too.
        configs: what it would train with.
    """
    for own in _named(client):
        for config in configs:
            check_config(config, own)


def _named(client: Client) -> list[Space]:
    """The spaces that a client's owner named; all of them hold."""
    found = [client.space, client.policy.space if client.policy is not None else None]
    return [own for own in found if own is not None]
