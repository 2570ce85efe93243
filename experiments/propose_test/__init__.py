"""Propose-test (Ding and Wu 2022): a curator that tests scores. Its figures, simulated, and central tuning."""
