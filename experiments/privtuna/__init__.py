"""PrivTuna (Mitic et al. 2024): configs combined from clients' searches. Its study, replayed and trained anew."""
