"""The types of the pytest fixture `scheduled_events`, to annotate tests with; see docs/testing.md."""

from duenotice.testkit.fixture import Approval, RaisedEvent, ScheduledEvents, VmHandle
from duenotice.testkit.request_log import Exchange

__all__ = ["Approval", "Exchange", "RaisedEvent", "ScheduledEvents", "VmHandle"]
