#!/usr/bin/env python3
"""Scheduled Events with the standard library: ask, pick what hits this VM, get ready, approve, come back.

client.py HOOK      the hook is called with: prepare|others-ready|restore EVENT-ID EVENT-TYPE; exit 0 means done
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

BASE = urlsplit(os.environ.get("DUENOTICE_METADATA_ENDPOINT", "http://169.254.169.254"))
HOST = BASE.hostname or sys.exit("DUENOTICE_METADATA_ENDPOINT must be like http://169.254.169.254")
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
SECONDS = 3
# What was begun must survive a reboot.
STATE = Path(os.environ.get("DUENOTICE_STATE_DIR", "/var/lib/duenotice-client"))
T = TypeVar("T")


def too_late(*_: object) -> NoReturn:
    raise TimeoutError(f"no whole answer in {SECONDS} s")


def ask(method: str, target: str, body: str | None = None) -> bytes:
    """The body of a 200; http.client knows no proxy and follows no redirect. The header goes with POST too."""
    connection = HTTPConnection(HOST, BASE.port, timeout=SECONDS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)  # the timeout of a connection starts again with every byte
    try:
        connection.request(method, target, body, {"Metadata": "true"})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.close()
    if answer.status != 200:
        raise ValueError(f"HTTP {answer.status}")
    return content


def hook(verb: str, event_id: str, event_type: str) -> bool:
    return subprocess.run([sys.argv[1], verb, event_id, event_type]).returncode == 0


def get_ready(event: dict[str, Any], approved: set[str]) -> None:
    event_id, begun = event["EventId"], STATE / event["EventId"]
    if not begun.exists() or begun.read_text() != f"prepared {event['EventType']}":
        begun.write_text(f"begun {event['EventType']}")  # first, so that it is undone even if we are killed on the way
        if not hook("prepare", event_id, event["EventType"]):
            return
        begun.write_text(f"prepared {event['EventType']}")
    # An approval is for all VMs of the event: only its leader does it, and only when every one of them is ready.
    leads = event["Resources"][0] == ME and event["EventStatus"] == "Scheduled" and event_id not in approved
    if leads and (len(event["Resources"]) == 1 or hook("others-ready", event_id, event["EventType"])):
        ask("POST", EVENTS, json.dumps({"StartRequests": [{"EventId": event_id}]}))
        approved.add(event_id)


def round_once(approved: set[str]) -> None:
    # Every event counts, not only the first; NotBefore is left alone, it is empty once an event has started.
    events = [event for event in json.loads(ask("GET", EVENTS))["Events"] if ME in event["Resources"]]
    mine = {event["EventId"]: event for event in events if re.fullmatch("[0-9A-Fa-f-]+", event["EventId"])}
    for begun in STATE.iterdir():  # an event that is over or cancelled just disappears
        if begun.name not in mine and hook("restore", begun.name, begun.read_text().split()[1]):
            begun.unlink()
    for event in mine.values():
        attempt(get_ready, event, approved)  # one that fails must not keep the others waiting


def attempt(work: Callable[..., T], *arguments: object) -> T | None:
    """An error, an empty answer or a sign-in page is not "no events": leave all as it is and ask again."""
    try:
        return work(*arguments)
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        print(f"asking again: {error}", file=sys.stderr)
    return None


signal.signal(signal.SIGALRM, too_late)
STATE.mkdir(parents=True, exist_ok=True)
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
while not (ME := (attempt(ask, "GET", NAME) or b"").decode()):
    time.sleep(1)
done: set[str] = set()
while True:
    attempt(round_once, done)
    time.sleep(1)
