"""How scenario files are read, and how each mistake in one is refused: file, line, key, and what to do."""

import pytest

from duenotice.errors import Misconfigured
from duenotice.scenarios.kinds import Span
from duenotice.scenarios.scenario import ScenarioStep, read_scenario
from duenotice.scenarios.verbs import VERBS

HEAD = 'name = "try-it"\ntitle = "Try it"\nabout = "What happens."\n'
CAST = '[cast]\nvm = { is = "vm" }\nset = { is = "set", update_domains = 2 }\nhost = { is = "host" }\n'


def steps(text: str) -> tuple[ScenarioStep, ...]:
    return read_scenario(HEAD + CAST + text).steps


def refusal(text: str) -> tuple[str, str]:
    with pytest.raises(Misconfigured) as refused:
        read_scenario(text, "my.toml")
    return refused.value.message, refused.value.hint


def test_a_scenario_is_read() -> None:
    """Roles and steps in order, spans in seconds."""
    first = '[[steps]]\nrestart = "vm"\nas = "it"\nnote = "hm"\n'
    then = '[[steps]]\nexpect = "Started"\nevent = "it"\nwithin = "15m"\n'
    read = read_scenario(HEAD + CAST + first + then)
    assert (read.name, read.title, read.about, read.trap) == ("try-it", "Try it", "What happens.", "")
    assert [(role.name, role.kind, dict(role.needs)) for role in read.cast] == [
        ("vm", "vm", {}),
        ("set", "set", {"update_domains": 2}),
        ("host", "host", {}),
    ]
    assert read.steps == (
        ScenarioStep("restart", "vm", {}, "it", "hm"),
        ScenarioStep("expect", "Started", {"event": "it", "within": Span("15m", 900.0)}),
    )


def test_a_step_tells_itself_with_roles_or_with_names() -> None:
    """What a person reads before and while it is played."""
    (step,) = steps('[[steps]]\nmaintenance = "Reboot"\non = ["set", "vm"]\nsettle = "5m"\nas = "roll"\n')
    assert step.tell() == "maintenance Reboot on set and vm settling 5m → roll"
    assert step.tell({"set": "web", "vm": "db-0"}) == "maintenance Reboot on web and db-0 settling 5m → roll"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('expect = "gone"\nhits = "vm"', "expect no event hitting vm"),
        ('expect = "Started"\ntype = "Freeze"\nnot_before = ""', "expect Freeze Started without NotBefore"),
        ('expect = "removed"\nwithin = "30s"', "expect the VM removed within 30s"),
        ('expect = "removed"\nvm = "vm"', "expect vm removed"),
        ('fault = "vm"\nanswer = "500"\nfor = "20s"', "fault vm answering 500 for 20s"),
        ('degrade = "host"\nrisk = "high"', "degrade host at high risk"),
    ],
)
def test_steps_read_like_sentences(text: str, told: str) -> None:
    """Each option has its words."""
    assert steps(f"[[steps]]\n{text}\n")[0].tell() == told


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ('expect = "Started"\nwitin = "5m"', "my.toml:10: steps[1] has an unknown key 'witin'.", "'within'"),
        ('restrat = "vm"', "my.toml:9: steps[1] has no verb; 'restrat' is not one.", "Did you mean 'restart'?"),
        ("", "my.toml:8: steps[1] is empty.", "Known verbs: listen"),
        ('restart = "vm"\nwait = "5m"', "my.toml:10: steps[1] has two verbs, restart and wait.", "two steps"),
        ('wait = "5 minuets"', "my.toml:9: steps[1] wait: '5 minuets' is not a span of time.", "Write 30s"),
        ("wait = 5", 'my.toml:9: steps[1] wait: must be a span of time such as "15m".', "Found 5."),
        ('restart = "wm"', "my.toml:9: steps[1] restart: 'wm' is not valid.", "Known roles: vm."),
        ('restart = "set"', "my.toml:9: steps[1] restart: 'set' is not valid.", "Known roles: vm."),
        ('expect = "started"', "my.toml:9: steps[1] expect: 'started' is not valid.", "Did you mean 'Started'?"),
        ('approve = "it"', "my.toml:9: steps[1] approve: no earlier step has named the event 'it'.", 'as = "…"'),
        ('schedule = "Reboot"', "my.toml:9: steps[1] schedule needs 'vms'.", "Add vms = …"),
        ('schedule = "Rebot"\nvms = "vm"', "my.toml:9: steps[1] schedule: 'Rebot' is not valid.", "'Reboot'"),
        ('listen = ["vm", "vm"]', "my.toml:9: steps[1] listen: name at least one role, and none twice.", "Found"),
        (
            'expect = "gone"\nas = "it"',
            "my.toml:10: steps[1] as cannot be used when gone is expected.",
            "Leave it out.",
        ),
        (
            'expect = "removed"\ntype = "Preempt"',
            "my.toml:10: steps[1] type cannot be used when removed is expected.",
            "",
        ),
        (
            'expect = "Started"\nnot_before = "5m"',
            "my.toml:10: steps[1] not_before: '5m' is not the empty text.",
            "notice",
        ),
        (
            'expect = "Started"\napi_version = "2020"',
            "my.toml:10: steps[1] api_version: '2020' is not valid.",
            "versions",
        ),
        ('expect = "Started"\ncount = true', "my.toml:10: steps[1] count: must be a whole number.", "Found True."),
        ('wait = "5m"\nas = "it"', "my.toml:10: steps[1] has an unknown key 'as'.", "Known keys: wait, note."),
    ],
)
def test_a_broken_step_is_refused_with_its_line_and_key(text: str, what: str, hint: str) -> None:
    """One line of what is wrong and one of what to do."""
    said, to_do = refusal(f"{HEAD}{CAST}[[steps]]\n{text}\n")
    assert said == what
    assert hint in to_do


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("name = ", "my.toml: not TOML", "Fix the line"),
        ('name = "No Slug"', "my.toml:1: name 'No Slug' is not a valid name.", "small letters"),
        ('name = "x"\ntitle = 5', "my.toml:2: title must be a text.", "Found 5."),
        ('name = "x"', "my.toml:1: has no 'title'.", "Add title"),
        (HEAD, "my.toml:1: has no 'cast'.", "Add cast"),
        (HEAD + CAST, "my.toml:1: has no steps.", "Add [[steps]]."),
        (HEAD + "tarp = 'x'\n" + CAST + "[[steps]]\nwait = '1m'", "my.toml:4: unknown key 'tarp'.", "'trap'"),
        (HEAD + "[cast]\nh = { is = 'host' }\n[[steps]]\nwait='1m'", "my.toml:4: cast has no VM.", "add a role"),
        (HEAD + "[cast]\nvm = 'db-0'\n", "my.toml:5: cast.vm must be a table.", "table of keys"),
        (HEAD + "[cast]\nvm = { is = 'wm' }\n", "my.toml:5: cast.vm is = 'wm' is not a kind of role.", "Known kinds"),
        (HEAD + "[cast]\nvm = { is = 'vm', spot = true }\n", "my.toml:5: cast.vm has an unknown key 'spot'.", "is"),
        (HEAD + "[cast]\nVM = { is = 'vm' }\n", "my.toml:5: cast.VM is not a valid name for a role.", "small letters"),
        (HEAD + "[cast]\nm = { is = 'member' }\n", "my.toml:5: cast.m has no 'of'.", "Add of"),
        (
            HEAD + "[cast]\nm = { is = 'member', of = 's' }\n",
            "my.toml:5: cast.m of: 's' is not an earlier role that has VMs.",
            "Name a set",
        ),
    ],
)
def test_what_is_wrong_with_the_rest_is_said_alike(text: str, what: str, hint: str) -> None:
    """Also where there is no line that we know."""
    said, to_do = refusal(text)
    assert said.startswith(what)
    assert hint in to_do


def test_a_name_holds_only_for_later_steps() -> None:
    """A step cannot refer to what comes after it."""
    said, _ = refusal(HEAD + CAST + '[[steps]]\napprove = "it"\n[[steps]]\nrestart = "vm"\nas = "it"\n')
    assert "no earlier step has named the event" in said


def test_every_verb_says_what_it_does() -> None:
    """The reference in the documentation is made of these."""
    assert all(verb.help for verb in VERBS.values())
