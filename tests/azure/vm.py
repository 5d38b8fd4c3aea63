"""A program inside a VM, as in docs/client.md: it is told of events, gets ready and approves. `vm.py ENDPOINT`."""

import sys

from duenotice import MetadataClient
from duenotice.wire.seen_documents import SeenEvent

ready: dict[str, SeenEvent] = {}
with MetadataClient(sys.argv[1]) as client:
    me = client.instance_name()
    for document in client.watch(on_error=print):
        mine = {event.event_id: event for event in document.events if event.hits(me)}
        for event_id in ready.keys() - mine.keys():
            print(f"{ready.pop(event_id).type} is over", flush=True)  # noqa: T201
        for event in mine.values():
            if event.event_id not in ready:
                ready[event.event_id] = event
                print(f"{event.type}: {event.description}", flush=True)  # noqa: T201
                client.approve(event)
