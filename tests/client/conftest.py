"""Every test of this folder holds for both clients."""

from tests.support.clients import connect

__all__ = ["connect"]
