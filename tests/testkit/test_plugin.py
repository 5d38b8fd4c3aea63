"""The pytest plugin as a stranger's suite uses it: nothing to configure, one service a test, time only when told."""

import resource
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from duenotice.testing import RaisedEvent, ScheduledEvents, VmHandle

pytest_plugins = ["pytester"]
INSTALLED = [plugin.value for plugin in entry_points(group="pytest11")]
OURS = () if "duenotice.pytest_plugin" in INSTALLED else ("-p", "duenotice.pytest_plugin")
PLUGIN = (*OURS, "-p", "no:schemathesis", "-p", "no:hypothesispytest")
"""A tree that is not the installed one has no entry point. Those of others take longer to import than pytest itself."""

CLIENT = """
import json
import urllib.request

HEADERS = {"Metadata": "true"}
PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def read(url):
    with urllib.request.urlopen(urllib.request.Request(url + PATH, headers=HEADERS)) as answer:
        return json.load(answer)


def approve(url, event_id):
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    urllib.request.urlopen(urllib.request.Request(url + PATH, body, HEADERS)).close()
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite with a little client, and no configuration."""
    pytester.makepyfile(client=CLIENT)
    return pytester


def passes(suite: pytest.Pytester, *arguments: str, count: int = 1) -> None:
    """All tests of the suite pass, without a warning."""
    result = suite.runpytest_subprocess(*PLUGIN, "-W", "error", *arguments)
    result.assert_outcomes(passed=count)


def test_a_client_is_tested_from_the_first_sight_to_the_end(suite: pytest.Pytester) -> None:
    """Every word of the fixture, as the documentation has it."""
    suite.makepyfile(
        """
        from client import approve, read

        def test_it(scheduled_events):
            assert read(scheduled_events.url)["Events"] == []
            event = scheduled_events.vm().restart()
            assert event.status == "Scheduled"
            (seen,) = read(scheduled_events.url)["Events"]
            assert (seen["EventId"], seen["EventType"], seen["Resources"]) == (event.id, "Reboot", ["me"])
            approve(scheduled_events.url, seen["EventId"])
            assert scheduled_events.event.status == "Started"
            assert [approval.event_id for approval in scheduled_events.approvals] == [event.id]
            assert event.approved_by == "me"
            scheduled_events.advance(minutes=15)
            assert scheduled_events.event.status == "Completed"
            assert [(one.method, one.status) for one in scheduled_events.requests] == [
                ("GET", 200), ("GET", 200), ("POST", 200)
            ]
            assert scheduled_events.requests[0].headers["metadata"] == "true"
            assert scheduled_events.requests[-1].api_version == "2020-07-01"
        """
    )
    passes(suite)


def test_every_verb_raises_its_event_with_its_notice(suite: pytest.Pytester) -> None:
    """And time passes only when told: an event starts at its NotBefore and not a second before."""
    suite.makepyfile(
        """
        import datetime
        import pytest
        from client import read

        @pytest.mark.parametrize("verb, kind, seconds", [
            ("restart", "Reboot", 900), ("reboot", "Reboot", 900), ("redeploy", "Redeploy", 600),
            ("freeze", "Freeze", 900), ("live_migrate", "Freeze", 900), ("preempt", "Preempt", 30),
            ("terminate", "Terminate", 300),
        ])
        def test_it(scheduled_events, verb, kind, seconds):
            vm = scheduled_events.vm()
            event = getattr(vm, verb)()
            assert event.type == kind
            assert event.not_before - scheduled_events.now == datetime.timedelta(seconds=seconds)
            scheduled_events.advance(seconds=seconds - 1)
            assert event.status == "Scheduled"
            scheduled_events.advance(seconds=1)
            assert (event.status, read(scheduled_events.url)["Events"][0]["NotBefore"]) == ("Started", "")
            event.finish()
            assert event.status == "Completed"
            assert vm.exists is (kind not in ("Preempt", "Terminate"))
        """
    )
    passes(suite, count=7)


def test_a_fleet_of_several_vms(suite: pytest.Pytester) -> None:
    """Each is an address; a set is told together; who is meant must be said."""
    suite.makepyfile(
        """
        import http.client, json
        import pytest
        from duenotice.errors import DuenoticeError

        def read(url, source):
            host, port = url.removeprefix("http://").split(":")
            connection = http.client.HTTPConnection(host, int(port), source_address=(source, 0))
            connection.request("GET", "/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"})
            events = json.load(connection.getresponse())["Events"]
            connection.close()
            return events

        def test_it(scheduled_events):
            scheduled_events.fleet("web-0", "web-1", availability_set="web")
            event = scheduled_events.vm("web-0").redeploy()
            assert scheduled_events.vm("web-0").event.id == event.id
            told = [read(scheduled_events.url, f"127.0.1.{number}") for number in (1, 2)]
            assert [events[0]["Resources"] for events in told] == [["web-0"], ["web-0"]]
            assert [one.vm for one in scheduled_events.requests] == ["web-0", "web-1"]
            with pytest.raises(DuenoticeError, match="There are 2 VMs"):
                scheduled_events.vm()
            with pytest.raises(DuenoticeError, match="no VM named 'web-9'"):
                scheduled_events.vm("web-9")

        def test_a_file(scheduled_events, tmp_path):
            file = tmp_path / "fleet.toml"
            file.write_text('[[vms]]\\nname = "db-0"\\naddress = "127.0.1.1"\\n')
            assert scheduled_events.fleet(file).vm().name == "db-0"
        """
    )
    passes(suite, count=2)


def test_faults_end_on_the_manual_clock(suite: pytest.Pytester) -> None:
    """And can be taken back before."""
    suite.makepyfile(
        """
        import urllib.error
        import pytest
        from client import read

        def status(url):
            try:
                read(url)
            except urllib.error.HTTPError as error:
                error.close()
                return error.code
            return 200

        def test_it(scheduled_events):
            scheduled_events.fault("500", seconds=20)
            assert status(scheduled_events.url) == 500
            scheduled_events.advance(seconds=20)
            assert status(scheduled_events.url) == 200
            scheduled_events.vm().fault("410")
            scheduled_events.advance(days=1)
            assert status(scheduled_events.url) == 410
            scheduled_events.no_fault()
            before = read(scheduled_events.url)["DocumentIncarnation"]
            scheduled_events.jump()
            assert read(scheduled_events.url)["DocumentIncarnation"] > before + 1

        def test_cancelled(scheduled_events):
            event = scheduled_events.vm().freeze()
            event.cancel()
            assert (event.status, read(scheduled_events.url)["Events"]) == ("Cancelled", [])
        """
    )
    passes(suite, count=2)


def test_time_does_not_go_back(suite: pytest.Pytester) -> None:
    """Nor does it pass by a bare number; nothing has happened then."""
    suite.makepyfile(
        """
        import datetime
        import pytest
        from duenotice.errors import DuenoticeError

        @pytest.mark.parametrize("back", [{"minutes": -1}, {"hours": 1, "seconds": -3601}])
        def test_it(scheduled_events, back):
            before = scheduled_events.now
            with pytest.raises(DuenoticeError, match="Time cannot go back"):
                scheduled_events.advance(**back)
            with pytest.raises(DuenoticeError, match="Time cannot go back"):
                scheduled_events.advance(datetime.timedelta(microseconds=-1))
            with pytest.raises(DuenoticeError, match=r"advance\\(5\\) has no unit"):
                scheduled_events.advance(5)
            scheduled_events.advance()
            assert scheduled_events.now == before
        """
    )
    passes(suite, count=2)


def test_a_failure_says_what_to_do(suite: pytest.Pytester) -> None:
    """The hint stands in the report, beneath the error."""
    suite.makepyfile("def test_it(scheduled_events):\n    scheduled_events.fleet('a', 'b').vm()\n")
    result = suite.runpytest_subprocess(*PLUGIN, "--tb=short")
    result.stdout.fnmatch_lines(["*There are 2 VMs.", "*hint: Say which: vm('web-0')."])


def restarted(vm: VmHandle) -> RaisedEvent:
    return vm.restart()


def test_the_fixture_has_a_type_that_is_public(scheduled_events: ScheduledEvents) -> None:
    """An editor completes its words, and mypy, which reads this test too, checks them."""
    assert isinstance(scheduled_events, ScheduledEvents)
    assert restarted(scheduled_events.vm()).type == "Reboot"


def test_an_async_client_is_tested_as_well(suite: pytest.Pytester) -> None:
    """The service lives in a thread of its own, so that no loop of the test's is in its way."""
    suite.makepyfile(
        """
        import asyncio
        from duenotice import AsyncMetadataClient

        async def first_event(url):
            async with AsyncMetadataClient(url) as client:
                return (await client.document()).events[0]

        def test_it(scheduled_events):
            event = scheduled_events.vm().freeze()
            assert asyncio.run(first_event(scheduled_events.url)).event_id == event.id
        """
    )
    passes(suite)


def test_tests_in_parallel_have_services_of_their_own(suite: pytest.Pytester) -> None:
    """No port, no event and no clock is shared."""
    suite.makepyfile(
        """
        import pytest
        from client import read

        @pytest.mark.parametrize("number", range(20))
        def test_it(scheduled_events, number):
            for _ in range(number % 3):
                scheduled_events.vm().freeze()
            assert len(read(scheduled_events.url)["Events"]) == number % 3
        """
    )
    passes(suite, "-n", "2", count=20)


def test_a_suite_that_does_not_use_it_does_not_pay(suite: pytest.Pytester) -> None:
    """Nothing of the service is even imported."""
    suite.makepyfile(
        """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.startswith("duenotice")}
            assert ours <= {"duenotice", "duenotice.pytest_plugin"}, ours
            assert "uvloop" not in sys.modules
        """
    )
    passes(suite)


@pytest.mark.serial
def test_it_starts_in_less_than_100_ms_and_a_test_takes_less_than_60_ms(suite: pytest.Pytester) -> None:
    """250 lives of an event, each in virtual time, over real HTTP, by the time of the processor."""
    suite.makepyfile(
        """
        import time
        import pytest
        from client import approve, read

        @pytest.fixture(scope="module")
        def warm():
            import duenotice.testkit.emulator, duenotice.testkit.fixture

        @pytest.fixture
        def begun(warm):
            return time.process_time()

        def test_start(begun, scheduled_events):
            assert read(scheduled_events.url)["Events"] == []
            assert time.process_time() - begun < 0.1

        @pytest.mark.parametrize("number", range(250))
        def test_life(scheduled_events, number):
            event = scheduled_events.vm().restart()
            approve(scheduled_events.url, read(scheduled_events.url)["Events"][0]["EventId"])
            scheduled_events.advance(minutes=15)
            assert event.status == "Completed"
        """
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = suite.runpytest_subprocess(*PLUGIN, "-W", "error", "-q", timeout=250)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result.assert_outcomes(passed=251)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 250 * 0.06


def test_the_plugin_is_found_without_being_named() -> None:
    """The package says so to pytest by an entry point."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nduenotice = "duenotice.pytest_plugin"' in text
