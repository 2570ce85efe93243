"""Tests of mean scores by a curator: propose-test (Ding and Wu), and the noisy maximum."""
