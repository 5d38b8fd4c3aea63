"""Commands: what they are told, what their ends mean, and that none runs twice whoever asks how often."""

import asyncio
import errno
import json
import os
import signal
from pathlib import Path

import pytest

from duenotice.errors import Misconfigured, Unavailable
from duenotice.impact import wrapper
from duenotice.impact.command import CommandEnded, Lost, NotBegun, Running, RunRecords, environment_of
from duenotice.impact.driver import OUTPUT_KEPT, AttemptEnd, AttemptOutcome
from tests.unit.domain.build import id_of
from tests.unit.impact.rig import driver, in_loop, python, started, until

DONE = AttemptOutcome(AttemptEnd.DONE)


def appending(path: Path) -> tuple[str, ...]:
    """A command that leaves a line each time it runs."""
    return python(f"open({str(path)!r}, 'a').write('ran\\n')")


def waiting(path: Path, gate: Path) -> tuple[str, ...]:
    """The same, but it stays until the gate is there."""
    stays = f"while not os.path.exists({str(gate)!r}): time.sleep(.005)"
    return python(f"import os,time\nopen({str(path)!r},'a').write('ran\\n')\n{stays}")


class TestWhatItIsTold:
    """The event, as JSON and in the environment."""

    @in_loop
    async def test_the_event_comes_on_standard_input_and_in_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Our own settings and tokens do not."""
        monkeypatch.setenv("DUENOTICE_TOKEN", "secret")
        monkeypatch.setenv("OTHER", "kept")
        out = tmp_path / "out"
        code = f"import json,os,sys;json.dump([json.load(sys.stdin),dict(os.environ)],open({str(out)!r},'w'))"
        assert await driver(tmp_path, *python(code)).run(started(resources=("a", "b")), 2) == DONE
        event, environment = json.loads(out.read_text())
        assert (event["id"], event["type"], event["resources"]) == (id_of(1), "Reboot", ["a", "b"])
        ours = {name: value for name, value in environment.items() if name.startswith("DUENOTICE_")}
        assert ours == environment_of(started(resources=("a", "b")), 2)
        assert environment["OTHER"] == "kept"

    def test_every_value_fits_into_an_environment(self) -> None:
        """NUL is taken out, and a list that no program could be started with is only on standard input (S23)."""
        told = environment_of(started(description="a\0b", resources=tuple(f"vm-{n}" for n in range(50_000))), 1)
        assert told["DUENOTICE_EVENT_DESCRIPTION"] == "ab"
        assert "DUENOTICE_EVENT_RESOURCES" not in told

    def test_these_are_the_variables(self) -> None:
        """As hooks of the agent have them, plus the cause and the number of the attempt."""
        assert environment_of(started(description="why", resources=("a", "b")), 3) == {
            "DUENOTICE_EVENT_ID": id_of(1),
            "DUENOTICE_EVENT_TYPE": "Reboot",
            "DUENOTICE_EVENT_STATUS": "Started",
            "DUENOTICE_EVENT_NOT_BEFORE": "2026-03-01T12:00:00Z",
            "DUENOTICE_EVENT_RESOURCES": "a,b",
            "DUENOTICE_EVENT_SOURCE": "Platform",
            "DUENOTICE_EVENT_DESCRIPTION": "why",
            "DUENOTICE_EVENT_DURATION": "-1",
            "DUENOTICE_EVENT_CAUSE": "maintenance",
            "DUENOTICE_EVENT_ATTEMPT": "3",
        }

    @in_loop
    async def test_words_reach_the_program_as_they_are(self, tmp_path: Path) -> None:
        """No shell looks at them."""
        out = tmp_path / "out"
        command = python(f"import sys;open({str(out)!r},'w').write(repr(sys.argv[1:]))")
        await driver(tmp_path, *command, "$HOME; exit 1", "*", "`id`").run(started(description="$(reboot)"), 1)
        assert out.read_text() == repr(["$HOME; exit 1", "*", "`id`"])


class TestHowItEnds:
    """Exit 0 is done, everything else has failed and says why."""

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("print('no such domain'); raise SystemExit(3)", "Exit 3: no such domain"),
            ("raise SystemExit(1)", "Exit 1."),
            ("import os; os.kill(os.getpid(), 9)", "Killed by signal 9."),
        ],
    )
    def test_a_failure_says_how_and_what_was_said(self, tmp_path: Path, code: str, reason: str) -> None:
        """The reason has the exit status or signal, and the end of the output."""
        outcome = asyncio.run(driver(tmp_path, *python(code)).run(started(), 1))
        assert outcome == AttemptOutcome(AttemptEnd.FAILED, reason)

    @in_loop
    async def test_a_program_that_is_gone_meanwhile_is_a_failure(self, tmp_path: Path) -> None:
        """It was there at the start of the service; now it is not."""
        end, reason, *_ = await driver(tmp_path, "/no/such").run(started(), 1)
        assert end is AttemptEnd.FAILED
        assert reason.startswith("Exit 127: Cannot run /no/such")

    @in_loop
    async def test_only_the_end_of_the_output_is_kept(self, tmp_path: Path) -> None:
        """However much it says, and whatever bytes (S24)."""
        code = "import os;os.write(1, b'x' * 5_000_000);os.write(2, b'\\xff the end');raise SystemExit(1)"
        reason = (await driver(tmp_path, *python(code)).run(started(), 1)).reason
        assert reason.endswith("� the end")
        assert len(reason) <= len("Exit 1: ") + OUTPUT_KEPT

    @in_loop
    async def test_one_that_takes_too_long_is_killed_with_all_its_children(self, tmp_path: Path) -> None:
        """The whole process group, also a child that is deaf to SIGTERM."""
        child = tmp_path / "child"
        code = (
            "import os,signal,time\n"
            "if not os.fork():\n"
            " signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            f" open({str(child)!r}, 'w').write(str(os.getpid()))\n"
            "time.sleep(600)"
        )
        outcome = await driver(tmp_path, *python(code), timeout=0.5).run(started(), 1)
        assert outcome == AttemptOutcome(AttemptEnd.FAILED, "Not over after 0.5 seconds; killed.")
        await until(lambda: not Path(f"/proc/{child.read_text()}").exists() or _is_zombie(int(child.read_text())))

    @in_loop
    async def test_a_process_left_in_the_background_holds_nobody_up(self, tmp_path: Path) -> None:
        """What counts is the end of the command, not of everything that shares its output."""
        left = tmp_path / "left"
        code = f"import os,time\nif not os.fork():\n open({str(left)!r},'w').write(str(os.getpid())); time.sleep(600)"
        assert await driver(tmp_path, *python(code)).run(started(), 1) == DONE
        await until(left.exists)
        os.kill(int(left.read_text()), signal.SIGKILL)


class TestOnce:
    """An attempt runs once, whoever asks, however often, and whoever was killed meanwhile."""

    @in_loop
    async def test_asking_again_reads_what_is_written_down(self, tmp_path: Path) -> None:
        """A process after us finds the end that we did not report."""
        runs = tmp_path / "runs"
        for _ in range(3):
            assert await driver(tmp_path, *appending(runs)).run(started(), 1) == DONE
        assert runs.read_text() == "ran\n"

    @in_loop
    async def test_many_who_begin_at_once_are_one(self, tmp_path: Path) -> None:
        """The wrapper of a process that was killed and our own meet: one runs it, all learn its end."""
        runs = tmp_path / "runs"
        drivers = [driver(tmp_path, *appending(runs)) for _ in range(5)]
        assert await asyncio.gather(*(one.run(started(), 1) for one in drivers)) == [DONE] * 5
        assert runs.read_text() == "ran\n"

    @in_loop
    async def test_one_that_still_runs_is_waited_for(self, tmp_path: Path) -> None:
        """Cancelling us leaves the command alone; who comes after us finds it running and sees it end."""
        runs, gate = tmp_path / "runs", tmp_path / "gate"
        first = asyncio.ensure_future(driver(tmp_path, *waiting(runs, gate)).run(started(), 1))
        await until(runs.exists)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        spool = RunRecords(tmp_path / "impact")
        assert isinstance(spool.look(spool.place(id_of(1), 1)), Running)
        second = asyncio.ensure_future(driver(tmp_path, *appending(runs)).run(started(), 1))
        await asyncio.sleep(0)
        gate.touch()
        assert await second == DONE
        assert runs.read_text() == "ran\n"

    @in_loop
    async def test_each_attempt_is_its_own(self, tmp_path: Path) -> None:
        """The second attempt runs again."""
        runs = tmp_path / "runs"
        for attempt in (1, 2):
            await driver(tmp_path, *appending(runs)).run(started(), attempt)
        assert runs.read_text() == "ran\nran\n"

    @in_loop
    async def test_the_session_is_its_own(self, tmp_path: Path) -> None:
        """What kills our session or process group reaches neither the command nor its wrapper."""
        out = tmp_path / "out"
        code = f"import os;open({str(out)!r},'w').write(f'{{os.getsid(0)}} {{os.getsid(os.getppid())}}')"
        await driver(tmp_path, *python(code)).run(started(), 1)
        assert len({os.getsid(0), *map(int, out.read_text().split())}) == 3


class TestLost:
    """It was begun, and nobody can know how it ended."""

    @pytest.mark.parametrize(("final", "end"), [(True, AttemptEnd.HOPELESS), (False, AttemptEnd.FAILED)])
    def test_after_a_reboot_of_the_machine_the_setting_decides(
        self, tmp_path: Path, final: bool, end: AttemptEnd
    ) -> None:
        """Fail, or try again; never again by itself without being told so."""
        runs = tmp_path / "runs"
        one = driver(tmp_path, *appending(runs), lost_is_final=final)
        note(tmp_path, f"{id_of(1)}.1.begun", {"boot": "another", "pid": os.getpid(), "started": 1})
        outcome = asyncio.run(one.run(started(), 1))
        reason = "The machine was restarted while the command ran; nobody knows how far it came."
        assert (outcome.end, outcome.reason) == (end, reason)
        assert not runs.exists()

    @in_loop
    async def test_a_killed_wrapper_is_noticed(self, tmp_path: Path) -> None:
        """Its number may belong to another process by now: the time it began tells them apart."""
        gate = tmp_path / "gate"
        one = driver(tmp_path, *waiting(tmp_path / "runs", gate))
        running = asyncio.ensure_future(one.run(started(), 1))
        begun = tmp_path / "impact" / f"{id_of(1)}.1.begun"
        await until(begun.exists)
        os.kill(json.loads(begun.read_text())["pid"], signal.SIGKILL)
        assert (await running).reason.startswith("The command's wrapper was killed")
        gate.touch()

    def test_damaged_notes_are_not_guessed_at(self, tmp_path: Path) -> None:
        """A note that cannot be read still says that the command was begun."""
        driver(tmp_path)
        spool = RunRecords(tmp_path / "impact")
        spool.place("E", 1).with_name("E.1.begun").write_text("{")
        assert isinstance(spool.look(spool.place("E", 1)), Lost)


class TestNotes:
    """Files that come and go."""

    def test_a_directory_keeps_its_name_and_no_other_has_the_same(self, tmp_path: Path) -> None:
        """By it a process knows whether it has the notes of what was claimed for its node (N12)."""
        name = driver(tmp_path / "one").directory()
        assert driver(tmp_path / "one").directory() == name
        assert driver(tmp_path / "another").directory() != name

    @in_loop
    async def test_reported_attempts_leave_nothing_behind(self, tmp_path: Path) -> None:
        one = driver(tmp_path, "true")
        await one.run(started(), 1)
        assert sorted(path.name for path in (tmp_path / "impact").iterdir()) == [
            f"{id_of(1)}.1.begun",
            f"{id_of(1)}.1.exit",
        ]
        one.forget(id_of(1), 1)
        assert list((tmp_path / "impact").iterdir()) == []

    def test_a_start_keeps_only_what_may_be_asked_for(self, tmp_path: Path) -> None:
        """Of live events the attempts that are not in the journal yet; files of others are not ours to remove."""
        one = driver(tmp_path, "true")
        for name in ("A.1.begun", "A.2.begun", "A.2.exit", "B.1.begun", "B.1.77.draft", "README"):
            note(tmp_path, name, {})
        one.sweep({"A": started(failed_attempts=1)})
        assert sorted(path.name for path in (tmp_path / "impact").iterdir()) == ["A.2.begun", "A.2.exit", "README"]

    def test_an_unusable_directory_is_named_at_the_start(self, tmp_path: Path) -> None:
        (tmp_path / "impact").write_text("a file")
        with pytest.raises(Misconfigured, match="Commands cannot leave notes in"):
            driver(tmp_path, "true")

    @in_loop
    async def test_what_could_not_be_begun_is_not_failed(self, tmp_path: Path) -> None:
        """Without its notes nothing is run; the same attempt can be made later."""
        runs = tmp_path / "runs"
        one = driver(tmp_path, *appending(runs))
        (tmp_path / "impact").rmdir()
        with pytest.raises(Unavailable):
            await one.run(started(), 1)
        assert not runs.exists()
        one.sweep({})
        assert await one.run(started(), 1) == DONE

    def test_a_full_disk_delays_the_note_of_the_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The wrapper stays, and so its command counts as running, until there is room."""
        driver(tmp_path)
        spool, fsync, tries = RunRecords(tmp_path / "impact"), os.fsync, []

        def full_twice(file: int) -> None:
            tries.append(file)
            if len(tries) <= 2:
                raise OSError(errno.ENOSPC, "full")
            fsync(file)

        monkeypatch.setattr(os, "fsync", full_twice)
        monkeypatch.setattr(wrapper, "LOOK_AGAIN", 0.0)
        wrapper._end(spool.place("E", 1), {"status": 0, "timed_out": False, "output": ""})
        assert [path.name for path in spool.directory.iterdir()] == ["E.1.exit"]

    def test_what_is_seen_of_notes(self, tmp_path: Path) -> None:
        """No note: not begun. An exit beside it: ended, even if the wrapper is unknown by now."""
        driver(tmp_path)
        spool = RunRecords(tmp_path / "impact")
        place = spool.place("E", 1)
        assert spool.look(place) == NotBegun()
        note(tmp_path, "E.1.begun", {"boot": "another", "pid": 1, "started": 1})
        note(tmp_path, "E.1.exit", {"status": 0, "timed_out": False, "output": "x"})
        assert spool.look(place) == CommandEnded(0, False, "x")


def note(tmp_path: Path, name: str, content: dict[str, object]) -> None:
    (tmp_path / "impact" / name).write_text(json.dumps(content))


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
