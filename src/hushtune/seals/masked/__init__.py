"""Secure aggregation: masks that cancel in the sum (Bonawitz et al. 2017; Bell et al. 2020)."""
