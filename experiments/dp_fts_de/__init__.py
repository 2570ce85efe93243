"""DP-FTS-DE (Dai, Low, Jaillet 2021): agents that share noisy models. Its experiments on tabulated objectives."""
