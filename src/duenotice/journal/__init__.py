"""Keeps records and snapshots: in order, durably, checked when read; decides nothing, invents no time."""
