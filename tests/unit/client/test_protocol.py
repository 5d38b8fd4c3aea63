"""Retries that fit into the notice, and the way down the api-versions (H06, H07, A04)."""

from collections.abc import Callable
from typing import Any

import pytest

from duenotice import SeenDocument
from duenotice.client import (
    BadAnswer,
    Gone,
    MetadataError,
    Redirected,
    Rejected,
    ServerFailed,
    Throttled,
    TimedOut,
    Unreachable,
)
from duenotice.client.protocol import EVENT_VERSIONS, Choice, MetadataFlows
from duenotice.client.retry import RetryPolicy, pause_after
from duenotice.http.flow import Flow
from duenotice.wire.api_versions import API_VERSIONS
from tests.unit.client.stage import Request, Stage, answer, numbered

GOOD = answer(200, numbered(3))
SEEN = SeenDocument(3, ())


VERBS: list[Callable[[MetadataFlows], Flow[Any]]] = [
    MetadataFlows.document,
    MetadataFlows.instance,
    lambda flows: flows.approve(["A"]),
]


def always(status: int, *headers: str, delay: float = 0.0) -> Stage:
    return Stage(lambda _: (delay, answer(status, b"", *headers)))


def in_turn(*answers: bytes) -> Stage:
    """One answer after the other; the last stays."""
    stage: Stage = Stage(lambda _: (0.0, answers[min(len(stage.requests), len(answers)) - 1]))
    return stage


def times(stage: Stage) -> list[float]:
    return [round(request.at - 1000, 6) for request in stage.requests]


class TestRetries:
    """All within ten seconds by default, so that twenty of a notice of thirty are left."""

    def test_an_approval_that_is_not_wanted_any_more_is_not_tried_again(self) -> None:
        """S12: its event may have started during the pause."""
        stage = always(503)
        with pytest.raises(ServerFailed):
            stage.play(stage.flows().approve(["A"], lambda: stage.now < 1001))
        assert times(stage) == [0.0, 0.2, 0.6]

    @pytest.mark.parametrize(
        ("stage", "error", "tries"),
        [
            (always(500), ServerFailed, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
            (always(503), ServerFailed, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
            (always(202), BadAnswer, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
            (always(410), Gone, [0.0, 1.0, 2.0, 3.0, 4.6, 6.6, 8.6]),
            (always(429), Throttled, [0.0, 1.0, 2.0, 3.0, 4.6, 6.6, 8.6]),
            (always(429, "Retry-After: 4"), Throttled, [0.0, 4.0, 8.0]),
            (always(503, "Retry-After: 4"), ServerFailed, [0.0, 4.0, 8.0]),
            (always(429, "Retry-After: 60"), Throttled, [0.0]),
            (always(429, "Retry-After: Mon, 19 Sep 2016 18:29:47 GMT"), Throttled, [0.0, 1.0, 2.0, 3.0, 4.6, 6.6, 8.6]),
            (always(400), Rejected, [0.0]),
            (always(405), Rejected, [0.0]),
            (always(307), Redirected, [0.0]),
            (always(200, delay=60), TimedOut, [0.0, 3.2, 6.6]),
            (Stage(lambda _: (0.0, b"")), Unreachable, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
        ],
    )
    @pytest.mark.parametrize("verb", VERBS, ids=["document", "instance", "approve"])
    def test_what_may_pass_is_tried_again_and_what_cannot_is_not(
        self,
        verb: Callable[[MetadataFlows], Flow[object]],
        stage: Stage,
        error: type[MetadataError],
        tries: list[float],
    ) -> None:
        """The table of docs/client.md, in seconds with the longest jitter."""
        fresh = Stage(stage.service)
        with pytest.raises(error):
            fresh.play(verb(fresh.flows()))
        assert times(fresh) == tries
        assert fresh.now - 1000 <= 10

    def test_the_first_good_answer_ends_it(self) -> None:
        stage = in_turn(answer(500), answer(200), GOOD)
        assert stage.play(stage.flows().document()) == SEEN
        assert times(stage) == [0.0, 0.2, 0.6]

    def test_the_wait_that_was_asked_for_is_in_the_error(self) -> None:
        """Whoever asks can come back then."""
        stage = always(429, "Retry-After: 60")
        with pytest.raises(Throttled) as caught:
            stage.play(stage.flows().document())
        assert caught.value.retry_after == 60

    def test_no_budget_is_one_try_with_all_its_time(self) -> None:
        """For the very first answer of all, which may take two minutes (F01)."""
        stage = Stage(lambda _: (119.0, GOOD))
        patient = stage.flows(policy=RetryPolicy(timeout=125, budget=0))
        assert stage.play(patient.document()) == SEEN
        with pytest.raises(TimedOut):
            stage.play(stage.flows(policy=RetryPolicy(timeout=100, budget=0)).document())
        assert times(stage) == [0.0, 119.0]

    @pytest.mark.parametrize(("jitter", "pause"), [(0.0, 0.1), (0.5, 0.15), (1.0, 0.2)])
    def test_pauses_are_jittered(self, jitter: float, pause: float) -> None:
        """A fleet that fails together does not come back together."""
        assert pause_after(0, 0.0, lambda: jitter) == pytest.approx(pause)


def service(known: list[str], refusal: Callable[[str], bytes]) -> Callable[[Request], tuple[float, bytes]]:
    """Knows some versions only."""
    return lambda request: (0.0, GOOD if request.version in known else refusal(request.version))


def asked(stage: Stage) -> list[str]:
    return [request.version for request in stage.requests]


class TestVersions:
    """The newest that both know, and remembered."""

    def test_ours_are_those_of_the_service(self) -> None:
        """S8: what the server writes the client asks for."""
        assert tuple(version.name for version in reversed(API_VERSIONS)) == EVENT_VERSIONS

    @pytest.mark.parametrize("newest", EVENT_VERSIONS)
    def test_an_older_service_is_asked_in_its_newest_version(self, newest: str) -> None:
        """A04: the refusal names it."""
        known = list(EVENT_VERSIONS[EVENT_VERSIONS.index(newest) :])
        body = {"error": "Bad request. api-version is invalid.", "newest-versions": known[:3]}
        stage = Stage(service(known, lambda _: answer(400, body)))
        flows = stage.flows()
        for _ in range(2):
            assert stage.play(flows.document()) == SEEN
        assert asked(stage) == ([EVENT_VERSIONS[0]] if newest != EVENT_VERSIONS[0] else []) + [newest, newest]

    def test_a_service_that_only_says_404_is_asked_in_one_after_the_other(self) -> None:
        stage = Stage(service(["2019-01-01", "2017-08-01"], lambda _: answer(404)))
        flows = stage.flows()
        for _ in range(2):
            assert stage.play(flows.document()) == SEEN
        searched = ["2020-07-01", "2019-08-01", "2019-04-01", "2019-01-01", "2020-07-01"]
        assert asked(stage) == [*searched, "2019-01-01"]

    def test_a_404_that_passes_does_not_leave_the_vm_with_an_old_version(self) -> None:
        """The preview knows no Preempt: a VM that fell so far would not hear of its own eviction."""
        stage = in_turn(answer(404), answer(404), GOOD)
        flows = stage.flows()
        assert stage.play(flows.document()) == SEEN
        assert asked(stage) == ["2020-07-01", "2019-08-01", "2019-04-01", "2020-07-01"]
        assert flows.events.current == "2020-07-01"

    def test_a_404_after_a_version_has_worked_is_not_about_the_version(self) -> None:
        stage = in_turn(GOOD, answer(404), GOOD)
        flows = stage.flows()
        assert stage.play(flows.document()) == SEEN
        with pytest.raises(Rejected):
            stage.play(flows.document())
        assert stage.play(flows.document()) == SEEN
        assert asked(stage) == ["2020-07-01"] * 3

    def test_a_404_that_names_its_newest_version_in_words_is_understood(self) -> None:
        words = {"error": "Not found. The newest api-version here is 2017-11-01."}
        stage = Stage(service(["2017-11-01"], lambda _: answer(404, words)))
        assert stage.play(stage.flows().document()) == SEEN
        assert asked(stage) == ["2020-07-01", "2017-11-01"]

    def test_a_404_for_another_reason_is_searched_once_and_not_at_every_poll(self) -> None:
        """A09: a VM that nobody registered must not ask seven times a second."""
        stage = always(404)
        flows = stage.flows()
        for _ in range(3):
            with pytest.raises(Rejected):
                stage.play(flows.document())
        assert asked(stage) == [*EVENT_VERSIONS, EVENT_VERSIONS[0], EVENT_VERSIONS[0]]

    def test_a_400_for_another_reason_is_not_searched_at_all(self) -> None:
        stage = Stage(lambda _: (0.0, answer(400, {"error": "Required metadata header not specified"})))
        with pytest.raises(Rejected, match="metadata header"):
            stage.play(stage.flows().document())
        assert asked(stage) == ["2020-07-01"]

    def test_a_service_so_new_that_it_names_none_of_ours_is_still_asked_in_each(self) -> None:
        body = {"error": "…", "newest-versions": ["2031-01-01", "2030-01-01", 7, None]}
        stage = Stage(service(["2017-08-01"], lambda _: answer(400, body)))
        assert stage.play(stage.flows().document()) == SEEN

    def test_a_failure_on_the_way_down_is_what_comes_out(self) -> None:
        """The refusal of the first version would say that trying again is no use."""
        older = {"newest-versions": ["2019-08-01"]}
        stage = in_turn(answer(400, older), answer(500), answer(400, older), GOOD)
        assert stage.play(stage.flows().document()) == SEEN
        assert asked(stage) == ["2020-07-01", "2019-08-01"] * 2

    def test_a_renewed_service_that_refuses_the_remembered_version_is_followed(self) -> None:
        body = {"newest-versions": ["2020-07-01"]}
        stage = Stage(service(["2020-07-01"], lambda _: answer(400, body)))
        flows = stage.flows(events=Choice(EVENT_VERSIONS, "2017-08-01"))
        assert stage.play(flows.document()) == SEEN
        assert flows.events.current == "2020-07-01"

    def test_an_approval_finds_its_version_too(self) -> None:
        """C03: what was refused had no effect, so it may be sent again."""
        body = {"newest-versions": ["2019-08-01"]}
        stage = in_turn(answer(400, body), answer(200))
        stage.play(stage.flows().approve(["A"]))
        assert [(each.method, each.version) for each in stage.requests] == [
            ("POST", "2020-07-01"),
            ("POST", "2019-08-01"),
        ]

    def test_the_instance_has_versions_of_its_own(self) -> None:
        stage = in_turn(answer(400, {"newest-versions": ["2019-08-01"]}), answer(200, {"compute": {}}))
        flows = stage.flows()
        assert stage.play(flows.instance()) == {"compute": {}}
        assert asked(stage) == ["2021-02-01", "2019-08-01"]
        assert flows.events.current == "2020-07-01"

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b'{"newest-versions":7}', b'{"newest-versions":{"a":1}}', b'{"error":7}']
    )
    def test_an_odd_refusal_is_a_refusal(self, body: bytes) -> None:
        stage = Stage(lambda _: (0.0, answer(400, body)))
        with pytest.raises(Rejected):
            stage.play(stage.flows().document())
        assert len(stage.requests) == 1

    def test_names_lose_the_underscore_in_the_preview_alone(self) -> None:
        """B10."""
        event = {"EventId": "A", "EventStatus": "Started", "EventType": "Freeze", "Resources": ["_web-0"]}
        for version, name in (("2017-03-01", "web-0"), ("2017-08-01", "_web-0")):
            stage = Stage(lambda _: (0.0, answer(200, numbered(1, event))))
            seen = stage.play(stage.flows(events=Choice((version,))).document())
            assert seen.events[0].resources == (name,)
