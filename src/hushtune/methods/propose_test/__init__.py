"""Tests of mean scores by a curator or by nodes: propose-test (Ding and Wu), and the noisy maximum."""
