"""Speculative sampling: every algorithm in one readable file, with its exact output law."""
