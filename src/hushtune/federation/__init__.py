"""Federations: the clients and how to reach them."""
