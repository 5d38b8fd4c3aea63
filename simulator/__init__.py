"""Whole worlds from one seed: the real service between a made-up network, disk and time; see `docs/simulator.md`."""
