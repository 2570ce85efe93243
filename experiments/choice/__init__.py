"""What a choice costs: as DP-HYPE published it, with the sum opened, with only the winner, and with a public prior."""
