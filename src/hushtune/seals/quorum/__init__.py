"""Quorum: m nodes hold shares of what clients send, check it without seeing it, and open what was asked for."""
