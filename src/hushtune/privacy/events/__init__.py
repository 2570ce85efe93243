"""What was opened under which noise. Ledgers and results store events, never an epsilon."""
