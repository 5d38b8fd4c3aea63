"""Keeps records and snapshots: in order, durable, and checked when read. It decides nothing and reads no clock."""
