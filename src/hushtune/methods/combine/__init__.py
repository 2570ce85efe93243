"""Means, medians and clusters of good configs (PrivTuna)."""
