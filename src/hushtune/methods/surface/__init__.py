"""One loss surface of all clients' trials (FLoRA; Zhou et al. 2023)."""
