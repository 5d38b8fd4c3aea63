"""agent.toml: what it may say, and how a mistake is named by line and key."""

from pathlib import Path

import pytest

from duenotice.agent.config import load_config, read_config
from duenotice.agent.planner import ApprovalPolicy, HandlerRule, HandlerSpec
from duenotice.errors import Misconfigured

ISSUE = """
[metadata]
endpoint = "http://169.254.169.254"   # or "discover"
# name = "web-0"
[approval]
policy = "own"
[[rules]]
types = ["Reboot", "Redeploy"]
handlers = ["drain"]
[handlers.drain]
kind = "command"
prepare = ["/etc/duenotice/drain"]
recover = ["/etc/duenotice/undrain"]
timeout = "5m"
"""


def test_the_shortest_useful_file():
    """As the documentation shows it."""
    config = read_config(ISSUE)
    assert config.rules == (HandlerRule(("drain",), types=("Reboot", "Redeploy")),)
    assert config.specs == {"drain": HandlerSpec("drain", required=True, timeout=300.0)}
    assert (config.approval, config.metadata.endpoint) == (ApprovalPolicy("own"), "http://169.254.169.254")


def test_an_empty_file_follows_events_and_touches_nothing():
    """Nothing is approved unless somebody said so."""
    config = read_config("")
    assert (config.rules, config.approval, config.status_listen) == ((), ApprovalPolicy("never"), None)


def test_everything_a_rule_can_say():
    """Spans are read once, here."""
    rule = """
    [[rules]]
    types = ["Freeze"]
    sources = ["Platform"]
    resources = ["web-*"]
    shorter_than = "10s"
    longer_than = "1s"
    within = "15m"
    approve_after_failure = true
    handlers = []
    """
    assert read_config(rule).rules == (HandlerRule((), ("Freeze",), ("Platform",), ("web-*",), 10.0, 1.0, 900.0, True),)


def peers(tmp_path: Path, key: str = "0123456789abcdef", mode: int = 0o600, more: str = "") -> str:
    file = tmp_path / "key"
    file.write_text(key)
    file.chmod(mode)
    return f'[approval]\npolicy = "all-ready"\n[approval.peers]\nkey_file = "{file}"\n{more}'


def test_peers_have_a_key_and_addresses(tmp_path: Path):
    """By a template, by a list, or by both."""
    config = read_config(
        peers(tmp_path, more='address = "http://{vm}.internal:9707"\naddresses = { a = "http://a:1" }')
    )
    assert config.peer_keys == (b"0123456789abcdef",)
    assert config.peers is not None and config.peers.addresses == {"a": "http://a:1"}


@pytest.mark.parametrize(
    ("key", "mode", "more", "message"),
    [
        ("short", 0o600, 'address = "http://{vm}"', "line 4: approval.peers.key_file: the key is too short"),
        ("0123456789abcdef", 0o644, 'address = "http://{vm}"', "may be read by others"),
        ("0123456789abcdef", 0o600, 'address = "http://vm"', r"line 5: approval.peers.address: has no {vm} in it"),
        ("0123456789abcdef", 0o600, "", r"has no {vm} in it"),
        ("0123456789abcdef", 0o600, 'address = "https://{vm}"', "not an http:// address"),
        ("0123456789abcdef", 0o600, 'address = "http://{vm}"\nlisten = "9707"', "line 6: approval.peers.listen"),
        (
            "0123456789abcdef",
            0o600,
            'address = "http://{vm}"\n[approval.guard]\ngroup = ["a", "b"]\nkeep = 2',
            "line 8: approval.guard.keep: 2 of 2 cannot be kept",
        ),
    ],
)
def test_mistakes_about_peers(tmp_path: Path, key: str, mode: int, more: str, message: str):
    """A key that others know, or an address that leads nowhere, is found before an event comes."""
    with pytest.raises(Misconfigured) as caught:
        read_config(peers(tmp_path, key, mode, more))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("[approval]", "[aproval]", "line 5: aproval: there is no such key", "'approval'"),
        ('policy = "own"', 'policy = "all"', "line 6: approval.policy: invalid enum value 'all'", ""),
        ('policy = "own"', 'polcy = "own"', "line 6: approval.polcy: there is no such key", "'policy'"),
        ("types =", "type =", "line 8: rules[1].type: there is no such key", "'types'"),
        (
            'handlers = ["drain"]',
            'handlers = ["drian"]',
            "line 9: rules[1].handlers: there is no handler 'drian'",
            "'drain'",
        ),
        ('handlers = ["drain"]', 'handlers = ["drain", "drain"]', "named twice", "once"),
        ('handlers = ["drain"]', "handlers = 1", "line 9: rules[1].handlers: expected `array`, got `int`", ""),
        ('kind = "command"', 'kind = "comand"', "line 11: handlers.drain.kind = 'comand' is unknown", "'command'"),
        ('kind = "command"\n', "", "line 10: handlers.drain: has no 'kind'", "kind ="),
        (
            'timeout = "5m"',
            'timeout = "5 minutes"',
            "line 14: handlers.drain.timeout: '5 minutes' is not a span",
            "30s",
        ),
        ('timeout = "5m"', 'timeout = "0s"', "line 14: handlers.drain.timeout: must be more than zero", "5m"),
        ("http://169", "https://169", "line 3: metadata.endpoint: The metadata endpoint", "169.254.169.254"),
        ("recover =", "recovr =", "line 13: handlers.drain.recovr is not a key of command", "'recover'"),
        ('prepare = ["/etc/duenotice/drain"]', "prepare = 5", "line 12: handlers.drain.prepare is not valid", ""),
        (
            'kind = "command"',
            'kind = "shutdown"\nsteps = [\n  { unit = "a.service" },\n  { units = "b" },\n]',
            "line 16: handlers.drain.prepare is not a key of shutdown",
            "Known keys",
        ),
        (
            'kind = "command"\nprepare = ["/etc/duenotice/drain"]\nrecover = ["/etc/duenotice/undrain"]',
            'kind = "shutdown"\nsteps = [\n  { unit = "a.service" },\n  { units = "b" },\n]',
            "line 14: handlers.drain.steps[2].units is not valid: Object contains unknown field `units`",
            "Keys of shutdown",
        ),
        ('policy = "own"', 'policy = "all-ready"', "line 5: approval: asking others needs [approval.peers]", ""),
        ("[approval]", "[approval", "not TOML", "line"),
        ("[approval]", '[status]\nlisten = "nine"\n[approval]', "line 6: status.listen:", "127.0.0.1"),
    ],
)
def test_a_mistake_is_named_by_line_and_key(old: str, new: str, message: str, hint: str):
    """With the nearest thing that exists, where there is one."""
    assert old in ISSUE
    with pytest.raises(Misconfigured) as caught:
        read_config(ISSUE.replace(old, new))
    assert message in caught.value.message and hint in caught.value.hint, (caught.value.message, caught.value.hint)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    """And how to name another."""
    with pytest.raises(Misconfigured, match="Cannot read") as caught:
        load_config(tmp_path / "none.toml")
    assert "--config" in caught.value.hint
