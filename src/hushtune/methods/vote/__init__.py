"""Each client votes for its best candidates (DP-HYPE)."""
