"""Objectives for common libraries."""
