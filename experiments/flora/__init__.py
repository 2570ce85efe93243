"""FLoRA (Zhou et al. 2023): one loss surface from everybody's own search. Its tables, trained anew."""
