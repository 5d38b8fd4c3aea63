"""duenotice: every VM is told before it is hit. An open implementation of the Scheduled Events contract."""

__version__ = "0.1.0"

__all__ = ["__version__"]
