"""Models as stacked arrays, which federated averaging sees: networks and linear models."""
