"""Agents that search together through shared random features (DP-FTS-DE)."""
