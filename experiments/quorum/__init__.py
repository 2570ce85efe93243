"""What an opening under seal Quorum costs: real envelopes, real processes of nodes, and a known winner."""
