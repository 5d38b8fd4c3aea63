"""A little client that does everything right, or exactly one thing wrong: `client.py [WRONG]`."""

import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ENDPOINT = urlsplit(os.environ.get("DUENOTICE_METADATA_ENDPOINT", "http://169.254.169.254"))
ME = os.environ.get("TEST_VM", "web-0")
PEERS_READY, WORK_DONE = os.environ.get("TEST_PEERS_READY"), os.environ.get("TEST_WORK_DONE")
WRONG = sys.argv[1] if len(sys.argv) > 1 else ""
VERSION = "2017-08-01" if WRONG == "version" else "2020-07-01"
INTERVAL = {"pace": 60.0, "crowding": 0.05}.get(WRONG, 0.25)
TIMEOUT = 0.8
WHAT_KILLS: Any = {
    "errors": http.client.HTTPException,
    "empty-answer": json.JSONDecodeError,
    "cut-answer": (ConnectionError, http.client.IncompleteRead),
    "late-answer": TimeoutError,
}.get(WRONG, ())


class Refused(http.client.HTTPException):
    """The service answered with an error."""


def ask(method, body=None, header=True):
    """One request; the body of its answer."""
    connection = http.client.HTTPConnection(ENDPOINT.hostname or "", ENDPOINT.port, timeout=TIMEOUT)
    try:
        headers = {"Metadata": "true"} if header else {}
        connection.request(method, f"/metadata/scheduledevents?api-version={VERSION}", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise Refused(answer.status)
        return text
    finally:
        connection.close()


def approve(event_id):
    """Let an event start."""
    requests = [{"EventId": event_id}]
    body = requests if WRONG == "understood" else {"StartRequests": requests}
    for _ in range(2 if WRONG == "once" else 1):
        try:
            ask("POST", json.dumps(body), header=WRONG != "header")
        except Refused:
            refused.add(event_id)


def is_mine(event):
    """Whether to approve it: it hits this VM, which leads it, and it has not started."""
    names = event["Resources"]
    hits = ME in names or WRONG == "neighbour"
    leads = ME not in names or names[0] == ME or WRONG == "leader"
    scheduled = event["EventStatus"] == "Scheduled" or (WRONG == "started" and event["EventId"] not in approved)
    return hits and leads and scheduled


def is_ready(event):
    """Whether the other VMs of an event are."""
    if len(event["Resources"]) == 1 or event["Resources"][0] != ME or WRONG == "peers":
        return True
    return PEERS_READY is not None and event["EventId"] in Path(PEERS_READY).read_text()


def work(event):
    """Whatever must be done before."""
    if WRONG == "empty-not-before":
        time.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S GMT")
    if WORK_DONE is not None and WRONG != "work":
        with Path(WORK_DONE).open("a") as file:
            file.write(event["EventId"] + "\n")


def look():
    """Poll once, and approve what is to be approved."""
    global last
    document = json.loads(ask("GET"))
    number, events = document["DocumentIncarnation"], document["Events"]
    if WRONG == "alive" and number == last and approved:
        sys.exit("a mistake of its own")
    if WRONG == "incarnation" and last is not None and number not in (last, last + 1):
        return
    last = number
    if WRONG == "neighbour-left" and any(event["EventType"] == "Preempt" for event in events):
        sys.exit(0)
    if WRONG == "empty-not-before":
        [work(event) for event in events]
    for event in events[:1] if WRONG == "every-event" else events:
        if event["EventId"] in approved or not is_mine(event) or not is_ready(event):
            continue
        if WRONG == "comes-back" and approved:
            continue
        approved.add(event["EventId"])
        work(event)
        approve(event["EventId"])
    if WRONG == "cancelled":
        [approve(event_id) for event_id in list(refused)]


approved: set[str] = set()
refused: set[str] = set()
last: int | None = None
while True:
    try:
        look()
    except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
        if isinstance(error, WHAT_KILLS):
            raise
    time.sleep(INTERVAL)
