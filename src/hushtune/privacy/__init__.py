"""Noise, accounting, ledgers, policies, and the one way out of a client."""
