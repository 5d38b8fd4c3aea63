"""Judging how a client behaves: evidence, rules, and a verdict that people and CI can read."""
