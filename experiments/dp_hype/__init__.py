"""DP-HYPE: a private vote on candidates. Its Figure 2, simulated, and its experiments, trained anew."""
