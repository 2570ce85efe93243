"""The noise: who adds it, and exact samplers from a cryptographic source."""
