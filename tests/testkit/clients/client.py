"""A little client that does everything right, or exactly one thing wrong, or in a way of its own: `client.py [HOW]`."""

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ENDPOINT = urlsplit(os.environ.get("DUENOTICE_METADATA_ENDPOINT", "http://169.254.169.254"))
PEERS_READY, WORK_DONE = os.environ.get("TEST_PEERS_READY"), os.environ.get("TEST_WORK_DONE")
HOW = sys.argv[1] if len(sys.argv) > 1 else ""
VERSION = {"version": "2017-08-01", "preview": "2017-03-01", "newer": "2031-01-01"}.get(HOW, "2020-07-01")
PATH = "/metadata/latest/scheduledevents" if HOW == "in-2016" else "/metadata/scheduledevents"
NAME = socket.gethostname() if HOW.startswith("hostname") else os.environ.get("TEST_VM", "me")
ME = ("_" if HOW in ("preview", "in-2016") else "") + NAME
INTERVAL = {"pace": 60.0, "crowding": 0.05}.get(HOW, 0.2)
TIMEOUT = None if HOW == "openshift" else 1.0
WAIT = "&wait=500ms" if HOW == "waits" else ""
NOT_ONLY = () if HOW in ("only-freeze", "only-terminate") else (HOW,)
Event = dict[str, Any]


class Refused(http.client.HTTPException):
    """The service answered with an error."""


WHAT_KILLS: Any = {
    "errors": Refused,
    "empty-answer": json.JSONDecodeError,
    "cut-answer": (ConnectionError, http.client.IncompleteRead),
    "late-answer": TimeoutError,
    "openshift": (OSError, http.client.HTTPException, json.JSONDecodeError),
}.get(HOW, ())


def ask(method: str, body: str | None = None, header: bool = ME == NAME, version: str = VERSION) -> bytes:
    """One request; the body of its answer."""
    global etag
    connection = http.client.HTTPConnection(ENDPOINT.hostname or "", ENDPOINT.port, timeout=TIMEOUT)
    try:
        headers = {"Metadata": "true"} if header else {}
        if HOW in ("conditional", "waits"):
            headers["If-None-Match"] = etag
        wait = WAIT if method == "GET" else ""
        asked = "" if HOW == "in-2016" else f"?api-version={version}{wait}"
        connection.request(method, PATH + asked, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise Refused(answer.status)
        etag = answer.headers.get("ETag", etag)
        return text
    finally:
        connection.close()


def approve(event_id: str) -> None:
    """Let an event start; a service in trouble is asked again after the next poll."""
    requests = [{"EventId": event_id}]
    body = requests if HOW == "understood" else {"StartRequests": requests}
    for _ in range(2 if HOW == "once" else 1):
        try:
            ask("POST", json.dumps(body), header=not HOW.endswith("header") and ME == NAME)
        except Refused as refused:
            if refused.args[0] >= 429:
                approved.discard(event_id)


def is_mine(event: Event) -> bool:
    """Whether to approve it: it hits this VM, which leads it, and it has not started."""
    names, kind = event["Resources"], event["EventType"].lower()
    hits = ME in names or HOW in ("neighbour", f"neighbours-{kind}")
    leads = ME not in names or names[0] == ME or HOW in ("leader", f"leader-{kind}")
    scheduled = event["EventStatus"] == "Scheduled" or (HOW == "started" and event["EventId"] not in approved)
    wanted = (HOW != "only-of-its-user" or event["EventSource"] == "User") and HOW in (f"only-{kind}", *NOT_ONLY)
    return hits and leads and scheduled and wanted


def leave(event: Event) -> None:
    """End as its VM goes away: well, by a signal, or with a message."""
    if HOW == "leaves" and is_the_end(event):
        sys.exit(0)
    if HOW.startswith("leaves-") and ME in event["Resources"] and event["EventType"] in ("Preempt", "Terminate"):
        os.kill(os.getpid(), signal.SIGTERM) if HOW == "leaves-by-sigterm" else sys.exit("this VM goes away")


def is_the_end(event: Event) -> bool:
    """Whether this VM is rebooted or taken away: whoever starts with the machine may end then."""
    return ME in event["Resources"] and (event["EventStatus"] == "Started" or event["EventType"] == "Preempt")


def is_ready(event: Event) -> bool:
    """Whether the other VMs of an event are."""
    if len(event["Resources"]) == 1 or event["Resources"][0] != ME or HOW == "peers":
        return True
    return PEERS_READY is not None and event["EventId"] in Path(PEERS_READY).read_text()


def work(event: Event) -> None:
    """Whatever must be done before."""
    if HOW == "empty-not-before":
        time.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S GMT")
    if WORK_DONE is not None and HOW != "work":
        with Path(WORK_DONE).open("a") as file:
            file.write(event["EventId"] + "\n")


def look() -> None:
    """Poll once, and approve what is to be approved."""
    global last
    text = ask("GET")
    if HOW in ("conditional", "waits") and not text:
        return  # it has this document already
    document = json.loads(text)
    number, events = document["DocumentIncarnation"], document["Events"]
    if HOW == "incarnation" and last is not None and number not in (last, last + 1):
        return
    last = number
    for event in events:
        leave(event)
    if HOW == "neighbour-left" and any(event["EventType"] == "Preempt" for event in events):
        sys.exit(0)
    if HOW == "hangs" and any(is_mine(event) for event in events):
        time.sleep(600)
    if HOW == "naps" and not approved and any(is_mine(event) for event in events):
        approved.update(event["EventId"] for event in events)
        time.sleep(4.5)
    if HOW == "empty-not-before":
        for event in events:
            work(event)
    for event in events[:1] if HOW == "every-event" else events:
        if event["EventId"] in approved or not is_mine(event) or not is_ready(event):
            continue
        if HOW == "never-approves" or (HOW == "comes-back" and approved):
            continue
        approved.add(event["EventId"])
        work(event)
        approve(event["EventId"])
        if HOW == "alive" and len(approved) == 2:
            sys.exit("a mistake of its own")
    begun.update(event["EventId"] for event in events if event["EventStatus"] == "Started")
    if HOW == "three-times":
        for event in events:
            if event["EventId"] in approved & begun:
                approve(event["EventId"])
    if HOW == "cancelled":
        there = {event["EventId"] for event in events}
        for event_id in approved - begun - there:
            approve(event_id)


def look_for_any_preempt() -> None:
    """Whoever is preempted: end as if told to (SkyPilot's poller does this; it approves nothing)."""
    with contextlib.suppress(Refused):
        events = json.loads(ask("GET") or b"{}").get("Events") or []
        if any(event["EventType"] == "Preempt" for event in events):
            os.kill(os.getpid(), signal.SIGTERM)


def look_for_the_word() -> None:
    """Approve whatever has the type Terminate, each time anew (a script of scale sets does this, called by cron)."""
    text = ask("GET").decode()
    if "Terminate" in text:
        events = json.loads(text)["Events"]
        approve("\n".join(event["EventId"] for event in events if event["EventType"] == "Terminate"))


def look_without_care() -> None:
    """An error says that there are no events; end at any Preempt, and at anything else (OpenShift's handler does)."""
    try:
        events = json.loads(ask("GET"))["Events"]
    except Refused:
        return
    if any(event["EventType"] == "Preempt" for event in events):
        sys.exit(0)


LOOKS = {"skypilot": look_for_any_preempt, "vmss-script": look_for_the_word, "openshift": look_without_care}


def probe() -> None:
    """Take the newest version there is, and do not run where an unknown one is not 404."""
    try:
        ask("GET", version="2024-07-09")
    except Refused as refused:
        if refused.args != (404,):
            sys.exit("this is not Azure")


approved: set[str] = set()
begun: set[str] = set()
last: int | None = None
etag = '"0"'
if HOW in ("probes", "openshift"):
    probe()
while True:
    try:
        LOOKS.get(HOW, look)()
    except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
        if isinstance(error, WHAT_KILLS):
            raise
    time.sleep(INTERVAL)
