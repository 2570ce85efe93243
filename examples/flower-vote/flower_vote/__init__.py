"""Ten nodes choose hyperparameters by a private vote, then train with them."""
