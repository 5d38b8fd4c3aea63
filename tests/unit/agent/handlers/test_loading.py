"""From a table to a handler: our kinds, plugins, and errors that name the key."""

import importlib
import sys
from typing import Any

import pytest

from duenotice.agent.handlers.base import Handler
from duenotice.agent.handlers.loading import KINDS, handler_class, kinds, load, problems
from duenotice.errors import Misconfigured

SMALLEST: dict[str, dict[str, Any]] = {
    "command": {"prepare": ["/bin/true"]},
    "systemd": {"units": ["web.service"]},
    "haproxy": {"servers": ["web/web-0"]},
    "patroni": {},
    "postgresql": {},
    "kubernetes": {},
    "checkpoint": {"file": "/state", "pidfile": "/pid"},
    "webhook": {"url": "http://127.0.0.1/"},
    "readiness": {},
    "log": {},
    "shutdown": {"steps": [{"unit": "web.service"}]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_loads_with_what_it_needs_at_least(kind):
    """And has both verbs; its keys are a frozen struct that forbids unknown ones."""
    handler: Handler[Any] = load("it", kind, SMALLEST[kind])
    assert all(callable(getattr(handler, verb)) for verb in ("prepare", "recover"))
    config = handler.options.__struct_config__  # type: ignore[attr-defined]
    assert config.frozen and config.forbid_unknown_fields
    assert isinstance(problems(handler), list)


@pytest.mark.parametrize(
    ("kind", "keys", "message", "hint"),
    [
        ("comand", {}, "handlers.it.kind = 'comand' is unknown.", "Did you mean 'command'?"),
        ("haproxy", {"server": ["web/a"]}, "handlers.it.server is not a key of haproxy.", "Did you mean 'servers'?"),
        ("haproxy", {}, "missing required field `servers`", "Keys of haproxy: servers, socket, limit."),
        ("haproxy", {"servers": []}, "handlers.it.servers is not valid: Expected `array` of length >= 1", ""),
        ("haproxy", {"servers": ["web"]}, "'web' is not BACKEND/SERVER", ""),
        ("haproxy", {"servers": ["web/a b; show env"]}, "is not BACKEND/SERVER", ""),
        ("haproxy", {"servers": ["web/a"], "socket": "admin"}, "is not HOST:PORT", ""),
        (
            "haproxy",
            {"servers": ["web/a"], "limit": "soon"},
            "handlers.it.limit is not valid: 'soon' is not a span",
            "",
        ),
        ("readiness", {"settle": True}, "handlers.it.settle is not valid: Expected a span such as 30s", ""),
        ("readiness", {"settle": []}, "handlers.it.settle is not valid", ""),
        ("command", {}, "give `hooks`, or `prepare` and `recover`", ""),
        ("command", {"prepare": ["x"], "hooks": "/h"}, "give `hooks`, or", ""),
        ("command", {"prepare": ["drain"]}, "'drain' is not an absolute path", ""),
        ("command", {"prepare": "/bin/drain now"}, "handlers.it.prepare is not valid: Expected `array`, got `str`", ""),
        ("systemd", {"units": ["web"]}, "write web.service", ""),
        ("systemd", {"units": ["web*.service"]}, "'web*.service' is not a whole unit name; write web.service", ""),
        ("systemd", {"units": ["a b.service"]}, "write a.service", ""),
        ("systemd", {"units": ["a.service"], "systemctl": []}, "handlers.it.systemctl is not valid", ""),
        ("shutdown", {"steps": [{"unit": "web"}]}, "write web.service", ""),
        ("checkpoint", {"file": "/f", "unit": "web"}, "write web.service", ""),
        ("checkpoint", {"file": "/f"}, "give one of `pidfile`, `unit` and `command`", ""),
        ("checkpoint", {"file": "/f", "unit": "a.service", "signal": "USR1"}, "write it like SIGUSR1", ""),
        ("patroni", {"url": "localhost:8008"}, "not an http or https address", ""),
        ("kubernetes", {"server": "https://user:pass@host"}, "not a plain http or https address", ""),
        ("postgresql", {"psql": ["psql"]}, "absolute path", ""),
        ("webhook", {}, "give `url` or `url_file`", ""),
        ("webhook", {"url": "http://h/", "prepare": '{"a": "$nobody"}'}, "$nobody is not a placeholder", ""),
        ("webhook", {"url": "http://h/", "prepare": '{"a": "$"}'}, "write `$$` for a dollar", ""),
        ("webhook", {"url": "http://h/", "prepare": "{text}"}, "a body is not JSON", ""),
        ("log", {"to": "syslog"}, "handlers.it.to is not valid: Invalid enum value 'syslog'", ""),
        ("log", {"to": "file"}, "needs an absolute `path`", ""),
        ("shutdown", {"steps": [{"unit": "a.service", "stop": ["/b"]}]}, "handlers.it.steps[1] is not valid", ""),
        ("shutdown", {"steps": [{"units": "a.service"}]}, "unknown field `units`", ""),
    ],
)
def test_a_mistake_is_told_with_its_key(kind, keys, message, hint):
    """One line of what is wrong and where, one of what would be right."""
    with pytest.raises(Misconfigured) as caught:
        load("it", kind, keys)
    assert message in caught.value.message
    assert caught.value.message.startswith("handlers.it")
    assert hint in caught.value.hint and caught.value.hint


PLUGIN = """
import msgspec

class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: int

class Redis:
    options = Options
    def __init__(self, name, options):
        self.name, self.port = name, options.port
    async def prepare(self, context): ...
    async def recover(self, context): ...

class Half:
    options = Options
    async def prepare(self, context): ...
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution with plugins, as an installer leaves it."""
    (tmp_path / "duenotice_test_plugin.py").write_text(PLUGIN)
    info = tmp_path / "duenotice_test_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: duenotice-test-plugin\nVersion: 1.0\n")
    names = {"redis": "Redis", "half": "Half", "none": "Nothing", "log": "Redis"}
    lines = [f"{name} = duenotice_test_plugin:{attribute}" for name, attribute in names.items()]
    (info / "entry_points.txt").write_text("\n".join(["[duenotice.handlers]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("duenotice_test_plugin", None)


@pytest.mark.usefixtures("installed")
def test_a_plugin_is_a_kind_like_ours():
    """Found by its entry point, with its own keys checked as ours are."""
    handler = load("cache", "redis", {"port": 6379})
    assert (type(handler).__name__, handler.name, handler.port) == ("Redis", "cache", 6379)  # type: ignore[attr-defined]
    assert "redis" in kinds()
    with pytest.raises(Misconfigured, match=r"handlers.cache.prot is not a key of redis"):
        load("cache", "redis", {"prot": 1})
    with pytest.raises(Misconfigured, match=r"handlers.cache.port is not valid"):
        load("cache", "redis", {"port": "x"})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("kind", "why"), [("half", "has no `recover`"), ("none", "cannot be loaded")])
def test_a_broken_plugin_is_told_as_such(kind, why):
    """The error names the package's own object, not a traceback of ours."""
    with pytest.raises(Misconfigured, match=why) as caught:
        load("cache", kind, {"port": 1})
    assert "duenotice_test_plugin" in caught.value.message


@pytest.mark.usefixtures("installed")
def test_a_plugin_cannot_take_the_place_of_ours():
    """`log` stays ours whatever is installed."""
    assert handler_class("it", "log").__module__ == "duenotice.agent.handlers.log"
