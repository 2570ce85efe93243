"""Multiparty CKKS: OpenFHE in processes of its own, and what is computed there."""
