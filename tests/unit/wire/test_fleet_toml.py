"""A fleet file: what it declares, and every mistake named by its place."""

import re
from pathlib import Path

import msgspec
import pytest

from duenotice.domain.fleet import Declaration, EventsPolicy, Group, GroupKind, Host, Site, Vm, scope_of
from duenotice.errors import Misconfigured
from duenotice.toml import LONGEST
from duenotice.wire.fleet_file import read_fleet

DEMO = Path(__file__).parents[3] / "examples" / "demo-fleet.toml"

FROM_THE_ISSUE = """
[[hosts]]
name = "host-1"
[[vms]]                       # standalone; with `zone` it is a zonal VM
name = "db-0"
address = "127.0.1.10"
host = "host-1"
zone = "1"
spot = false
[[availability_sets]]
name = "web"
update_domains = 5
vms = [{ name = "web-0", address = "127.0.2.1", update_domain = 0, host = "host-1" }]
[[cloud_services]]
name = "shop"
vms = [{ name = "FrontEnd_IN_0", address = "127.0.3.1", update_domain = 0 }]
[[scale_sets]]
name = "batch"                # instances batch_0 … ; placement groups of 100
capacity = 250
addresses = "127.0.16.0/20"   # given out in order
spot = true
terminate_notice = "PT5M"
"""


def vms_of(fleet: Declaration) -> dict[str, Vm]:
    return {vm.name: vm for vm in fleet.vms}


class TestTheFileOfTheIssue:
    """The file that the product was asked to read."""

    fleet = read_fleet(FROM_THE_ISSUE)

    def test_has_its_host(self) -> None:
        assert self.fleet.hosts == (Host("host-1"),)

    def test_has_its_groups(self) -> None:
        assert self.fleet.groups == (
            Group(GroupKind.AVAILABILITY_SET, "web", update_domains=5),
            Group(GroupKind.CLOUD_SERVICE, "shop"),
            Group(
                GroupKind.SCALE_SET,
                "batch",
                update_domains=5,
                fault_domains=5,
                terminate_notice=300,
                addresses="127.0.16.0/20",
                spot=True,
            ),
        )

    def test_has_its_vms_by_name(self) -> None:
        vms = vms_of(self.fleet)
        assert len(vms) == 253
        assert vms["db-0"] == Vm("db-0", "127.0.1.10", zone="1", host="host-1")
        assert vms["web-0"] == Vm("web-0", "127.0.2.1", "set/web", update_domain=0, fault_domain=0, host="host-1")
        assert vms["FrontEnd_IN_0"] == Vm("FrontEnd_IN_0", "127.0.3.1", "service/shop", None, 0, 0)

    def test_gives_the_instances_their_names_and_addresses_in_order(self) -> None:
        batch = [vm for vm in self.fleet.vms if vm.group == "scale-set/batch"]
        assert [vm.name for vm in batch] == [f"batch_{number}" for number in range(250)]
        assert [batch[0].address, batch[1].address, batch[249].address] == ["127.0.16.1", "127.0.16.2", "127.0.16.250"]
        assert all(vm.spot for vm in batch)

    def test_cuts_the_scale_set_into_placement_groups_of_at_most_a_hundred(self) -> None:
        groups = [vm.placement_group for vm in self.fleet.vms if vm.group == "scale-set/batch"]
        assert {number: groups.count(number) for number in set(groups)} == {0: 100, 1: 100, 2: 50}
        assert scope_of(vms_of(self.fleet)["batch_249"]) == "scale-set/batch/2"

    def test_spreads_the_instances_over_update_domains(self) -> None:
        vms = vms_of(self.fleet)
        assert [vms[f"batch_{number}"].update_domain for number in range(6)] == [0, 1, 2, 3, 4, 0]


def test_the_demo_fleet_can_be_read() -> None:
    fleet = read_fleet(DEMO.read_text(), str(DEMO))
    assert (fleet.site.location, len(fleet.vms)) == ("westeurope", 60)


def test_an_empty_file_is_an_empty_fleet() -> None:
    fleet = read_fleet("")
    assert (fleet.site, fleet.hosts, fleet.groups, fleet.vms) == (Site(), (), (), ())


def test_the_digest_is_of_what_a_file_says() -> None:
    """A remark, a blank or another order of the keys in a table changes nothing that it says."""
    one = '[[vms]]\nname = "a"\naddress = "10.0.0.1"\nspot = true\n'
    same = '# a remark\n[[vms]]\nspot = true\n\naddress = "10.0.0.1"\nname = "a"\n'
    assert read_fleet(one).digest == read_fleet(same).digest
    other = [one.replace("true", "false"), one.replace("0.1", "0.2"), one.replace('"a"', '"b"'), "", one + "[site]\n"]
    assert len({read_fleet(text).digest for text in (one, *other)}) == 5, "an empty [site] says nothing"


def test_the_site_is_read() -> None:
    site = read_fleet('[site]\nlocation = "x"\nresource_group = "y"\nsubscription_id = "z"').site
    assert site == Site("x", "y", "z")


def test_a_vm_may_say_its_size_os_and_tags() -> None:
    text = '[[vms]]\nname="a"\naddress="10.0.0.1"\nsize="Big"\nos="Windows"\ntags={team="blue", tier="1"}\nspot=true'
    vm = Vm("a", "10.0.0.1", size="Big", os="Windows", tags=(("team", "blue"), ("tier", "1")), spot=True)
    assert read_fleet(text).vms == (vm,)


def test_vms_of_a_set_are_spread_over_its_domains_unless_they_say_otherwise() -> None:
    vms = ", ".join(f'{{ name = "w{n}", address = "10.0.0.{n}" }}' for n in range(4))
    text = f'[[availability_sets]]\nname = "w"\nupdate_domains = 3\nfault_domains = 2\nvms = [{vms}]'
    assert [(vm.update_domain, vm.fault_domain) for vm in read_fleet(text).vms] == [(0, 0), (1, 1), (2, 0), (0, 1)]


def test_addresses_are_written_in_one_way() -> None:
    """The caller is found by its address, so it must be spelt as the system spells it."""
    assert read_fleet('[[vms]]\nname="a"\naddress="FD00:0::1"').vms[0].address == "fd00::1"


def test_a_scale_set_may_live_on_ipv6() -> None:
    text = '[[scale_sets]]\nname="s"\ncapacity=2\naddresses="fd00::/64"'
    assert [vm.address for vm in read_fleet(text).vms] == ["fd00::1", "fd00::2"]


def test_a_scale_set_may_be_empty_or_fill_its_network() -> None:
    assert read_fleet('[[scale_sets]]\nname="s"\ncapacity=0\naddresses="10.0.0.0/24"').vms == ()
    assert len(read_fleet('[[scale_sets]]\nname="s"\ncapacity=254\naddresses="10.0.0.0/24"').vms) == 254


@pytest.mark.parametrize(("text", "seconds"), [("PT5M", 300), ("PT15M", 900), ("6m", 360)])
def test_terminate_notice_is_five_to_fifteen_minutes(text: str, seconds: int) -> None:
    file = f'[[scale_sets]]\nname="s"\ncapacity=1\naddresses="10.0.0.0/24"\nterminate_notice="{text}"'
    assert read_fleet(file).groups[0].terminate_notice == seconds


VM = '[[vms]]\nname = "a"\naddress = "10.0.0.1"\n'
SET = '[[availability_sets]]\nname = "web"\n'
SCALE_SET = '[[scale_sets]]\nname = "s"\ncapacity = 3\naddresses = "10.0.0.0/24"\n'
SERVICE = '[[cloud_services]]\nname = "shop"\n'
HOST = '[[hosts]]\nname = "host-1"\n'


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        # not TOML
        ("[[vms]", "not TOML: ", "Fix the line"),
        ("a = " + "[" * 5000, "not TOML: ", "Fix the line"),
        ("a = " + "1" * 5000, "not TOML: ", "Fix the line"),
        # unknown keys, at every depth
        ("[[vm]]\n", "fleet.toml, line 1: unknown key 'vm'.", "Did you mean 'vms'?"),
        ("banana = 1", "unknown key 'banana'.", "Known keys: site, hosts, vms, availability_sets"),
        ('[site]\nlocatoin = "x"', "[site] has an unknown key 'locatoin'.", "Did you mean 'location'?"),
        (HOST + "size = 1", 'hosts[1] "host-1" has an unknown key', "Known keys: name."),
        (VM + 'adress = "10.0.0.1"', "vms[1] \"a\" has an unknown key 'adress'.", "Did you mean 'address'?"),
        (VM + "update_domain = 1", "has an unknown key 'update_domain'.", "Known keys: name, "),
        (SET + "update_domain = 5", 'availability_sets[1] "web" has an unknown key', "Did you mean 'update_domains'?"),
        (
            SET + 'vms = [{ name = "a", address = "10.0.0.1", zone = "1" }]',
            'availability_sets[1] "web".vms[1] "a" has an unknown key \'zone\'.',
            "Known keys: name, ",
        ),
        (SCALE_SET + "capacty = 1", "scale_sets[1] \"s\" has an unknown key 'capacty'.", "Did you mean 'capacity'?"),
        # what is missing
        ("[[vms]]\n", "vms[1] has no 'name'.", "Add name = …"),
        ('[[vms]]\nname = "a"', "vms[1] \"a\" has no 'address'.", "Add address = …"),
        ('[[scale_sets]]\nname = "s"\naddresses = "10.0.0.0/24"', "scale_sets[1] \"s\" has no 'capacity'.", "Add "),
        # wrong types
        ("vms = 1", "fleet.toml, line 1: vms must be a list.", "Found 1."),
        ("vms = [1]", "vms[1] must be a table.", "Write it as a table of keys."),
        ("[vms]\n", "vms must be a list.", "Found {}."),
        ("site = 1", "site must be a table.", "Found 1."),
        ("[site]\nlocation = 1", "[site] location must be a text.", "Found 1."),
        ("[[vms]]\nname = 1", "vms[1] name must be a text.", "Found 1."),
        (VM + "zone = 1", 'vms[1] "a" zone must be a text.', "Found 1."),
        (VM + 'spot = "yes"', 'vms[1] "a" spot must be true or false.', "Found 'yes'."),
        (VM + "tags = { a = 1 }", "vms[1] \"a\" tag 'a' must be a text.", "Found 1."),
        (SET + "update_domains = true", "update_domains must be a whole number.", "Found True."),
        (SET + "update_domains = 5.0", "update_domains must be a whole number.", "Found 5.0."),
        # names and addresses
        (VM.replace('"a"', '"a b"'), "vms[1] has the name 'a b', which is not valid.", "Use letters, digits, dot"),
        (VM.replace('"a"', '""'), "vms[1] has the name '', which is not valid.", "Use letters"),
        (VM.replace('"a"', f'"{"a" * 81}"'), "vms[1] has the name", "at most 80"),
        (VM.replace('"a"', '"a/b"'), "has the name 'a/b', which is not valid.", "Use letters"),
        (VM.replace("10.0.0.1", "10.0.0"), "vms[1] \"a\" address '10.0.0' is not an IP address.", "127.0.1.10"),
        (VM.replace("10.0.0.1", "10.0.0.0/24"), "is not an IP address.", "127.0.1.10"),
        # hosts
        (
            HOST + VM + 'host = "hots-1"',
            "vms[1] \"a\" runs on the host 'hots-1', which is not",
            "Did you mean 'host-1'?",
        ),
        (VM + 'host = "host-1"', "runs on the host 'host-1', which is not declared.", "Add it under [[hosts]]."),
        # bounds
        (SET + "update_domains = 0", "update_domains = 0 is out of bounds.", "Use 1 to 20."),
        (SET + "update_domains = 21", "update_domains = 21 is out of bounds.", "Use 1 to 20."),
        (SET + "fault_domains = 4", "fault_domains = 4 is out of bounds.", "Use 1 to 3."),
        (
            SET + 'vms = [{ name = "a", address = "10.0.0.1", update_domain = 5 }]',
            'availability_sets[1] "web".vms[1] "a" update_domain = 5 is out of bounds.',
            "Use 0 to 4.",
        ),
        (SCALE_SET.replace("= 3", "= -1"), "capacity = -1 is out of bounds.", "Use 0 to 1000000."),
        (
            SCALE_SET + 'terminate_notice = "PT4M59S"',
            "scale_sets[1] \"s\" terminate_notice = 'PT4M59S' is out of bounds.",
            "Use PT5M to PT15M",
        ),
        (SCALE_SET + 'terminate_notice = "PT15M1S"', "is out of bounds.", "Use PT5M to PT15M"),
        (SCALE_SET + 'terminate_notice = "soon"', "terminate_notice: 'soon' is not a span of time.", "PT5M"),
        # policies
        (VM + "policy = { user_initiated_reboot = 1 }", '"a".policy user_initiated_reboot must be true or', "Found 1."),
        (
            VM + "policy = { user_initiated_rebot = true }",
            "has an unknown key",
            "Did you mean 'user_initiated_reboot'?",
        ),
        (VM + "policy = true", "policy must be a table.", "Found True."),
        (
            SET + 'policy = { scheduled_events_api_version = "2020" }',
            "availability_sets[1] \"web\".policy scheduled_events_api_version = '2020' is not known.",
            "Use one of 2017-03-01",
        ),
        (
            SET + 'vms = [{ name = "b", address = "10.1.0.1", policy = { all_instances_down = true } }]',
            'availability_sets[1] "web".vms[1] "b" has a policy, which belongs to the whole set.',
            "Write it at the set.",
        ),
        (SERVICE + "policy = { all_instances_down = true }", "has an unknown key 'policy'.", "Known keys"),
        # networks
        (
            SCALE_SET.replace("/24", "/30"),
            'scale_sets[1] "s" addresses 10.0.0.0/30 has room for 2 VMs, not 3.',
            "Use a larger network.",
        ),
        (SCALE_SET.replace("10.0.0.0/24", "10.0.0.1/24"), "addresses: 10.0.0.1/24 has host bits set.", "127.0.16.0/20"),
        (SCALE_SET.replace("10.0.0.0/24", "x"), 'scale_sets[1] "s" addresses: ', "127.0.16.0/20"),
    ],
)
def test_every_mistake_is_named_by_its_place_with_what_to_do(text: str, what: str, hint: str) -> None:
    with pytest.raises(Misconfigured) as mistake:
        read_fleet(text, "fleet.toml")
    assert re.match(r"fleet\.toml(, line \d+: |: not TOML)", mistake.value.message)
    assert what in mistake.value.message
    assert hint in mistake.value.hint


def test_owners_say_what_they_approve_beforehand() -> None:
    policy = "policy = { user_initiated_reboot = true, all_instances_down = false }"
    wish = EventsPolicy(user_initiated_reboot=True, all_instances_down=False)
    in_service = f'vms = [{{ name = "b", address = "10.1.0.1", {policy} }}]'
    scale_set = SCALE_SET.replace("10.0.0.0", "10.2.0.0")
    fleet = read_fleet("\n".join([VM, policy, SET, policy, SERVICE, in_service, scale_set, policy]))
    assert [vm.events_policy for vm in fleet.vms[:3]] == [wish, wish, EventsPolicy()]
    assert [group.events_policy for group in fleet.groups] == [wish, EventsPolicy(), wish]


def test_who_says_nothing_takes_no_room() -> None:
    """In the journal of a fleet of a million VMs."""
    fleet = read_fleet(VM + SET + "policy = {}")
    assert msgspec.json.encode(fleet.vms) == b'[{"name":"a","address":"10.0.0.1"}]'
    assert b"policy" not in msgspec.json.encode(fleet.groups)


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("# first\n\n[[vm]]\n", 3, "Did you mean 'vms'?"),
        (VM + '[[vms]]\nname = "b"\nAdress = "10.0.0.2"', 6, "Did you mean 'address'?"),
        (HOST + VM + "# here\nhots = 'host-1'", 7, "Did you mean 'host'?"),
        (SET + 'vms = [\n  { name = "a", address = "10.0.0.1" },\n  { nmae = "b" },\n]', 5, "Did you mean 'name'?"),
        (SET + 'vms = [\n  { name = "a", address = "10.0.0.1" },\n  { name = "b" },\n]', 5, "Add address = …"),
        (SET + 'vms = [\n  # two\n  { name = "a", address = "10.0.0.1", tgas = {} },\n]', 5, "Did you mean 'tags'?"),
        (VM.replace('"a"', '"a b"'), 2, "Use letters, digits, dot, dash and underscore, at most 80 of them."),
        (VM + "# here\ntags = { b = 'c', a = 1 }", 5, "Found 1."),
        (VM + "[vms.tags]\nb = 'c'\na = 1", 6, "Found 1."),
        (SCALE_SET + "terminate_notice = 'soon'", 5, "Write 30s, 5m, 1h30m or PT5M."),
        (SCALE_SET + "terminate_notice = '1s'", 5, "Use PT5M to PT15M (D01)."),
        (SCALE_SET.replace("/24", "/30"), 4, "Use a larger network."),
        (SCALE_SET + SCALE_SET.replace('"s"', '"t"'), 8, "Give each its own."),
        (VM + VM.replace('"a"', '"b"'), 6, "Give each its own."),
        (VM + VM.replace("0.1", "0.2"), 5, "Give each its own."),
        (HOST + HOST, 4, "Give each its own."),
    ],
)
def test_a_mistake_is_found_on_its_line(text: str, line: int, hint: str) -> None:
    """Also inside a list of tables; the nearest key is hinted at."""
    with pytest.raises(Misconfigured) as mistake:
        read_fleet(text, "fleet.toml")
    assert mistake.value.message.startswith(f"fleet.toml, line {line}: "), mistake.value.message
    assert mistake.value.hint == hint


def test_in_a_very_large_file_no_line_is_looked_for() -> None:
    """The place is enough, and is there at once."""
    with pytest.raises(Misconfigured, match=r"^fleet\.toml: vms\[1\] \"a\" has an unknown key 'x'"):
        read_fleet(VM + "x = 1\n" + "#\n" * (LONGEST // 2), "fleet.toml")


@pytest.mark.parametrize(
    ("text", "what", "first", "second"),
    [
        (HOST + HOST, "the host host-1", 'hosts[1] "host-1"', 'hosts[2] "host-1"'),
        (VM + VM.replace("0.1", "0.2"), "the VM name a", 'vms[1] "a"', 'vms[2] "a"'),
        (VM + VM.replace('"a"', '"b"'), "the address 10.0.0.1", 'vms[1] "a"', 'vms[2] "b"'),
        (
            VM + SET + 'vms = [{ name = "b", address = "10.0.0.1" }]',
            "the address 10.0.0.1",
            'vms[1] "a"',
            'availability_sets[1] "web".vms[1] "b"',
        ),
        (VM + SCALE_SET, "the address 10.0.0.1", 'vms[1] "a"', 'scale_sets[1] "s"'),
        (VM.replace('"a"', '"s_1"') + SCALE_SET, "the address", 'vms[1] "s_1"', 'scale_sets[1] "s"'),
        (
            '[[vms]]\nname = "s_1"\naddress = "10.9.0.1"\n' + SCALE_SET,
            "the VM name s_1",
            'vms[1] "s_1"',
            'scale_sets[1] "s"',
        ),
        (
            SCALE_SET + SCALE_SET.replace('"s"', '"t"'),
            "the address 10.0.0.1",
            'scale_sets[1] "s"',
            'scale_sets[2] "t"',
        ),
        (SET + SET, "the group set/web", 'availability_sets[1] "web"', 'availability_sets[2] "web"'),
        (
            VM.replace("10.0.0.1", "fd00::1") + VM.replace("10.0.0.1", "fd00:0:0::1").replace('"a"', '"b"'),
            "the address fd00::1",
            'vms[1] "a"',
            'vms[2] "b"',
        ),
        (
            VM.replace("10.0.0.1", "::ffff:10.0.0.1") + VM.replace('"a"', '"b"'),
            "the address 10.0.0.1",
            'vms[1] "a"',
            'vms[2] "b"',
        ),
    ],
)
def test_what_is_used_twice_is_refused_naming_both_places(text: str, what: str, first: str, second: str) -> None:
    with pytest.raises(Misconfigured) as mistake:
        read_fleet(text, "fleet.toml")
    assert what in mistake.value.message
    assert mistake.value.message.endswith(f"is used twice: by {first} and by {second}.")


def test_groups_of_different_kinds_may_have_the_same_name() -> None:
    service = SET.replace("availability_sets", "cloud_services")
    assert [group.key for group in read_fleet(SET + service).groups] == ["set/web", "service/web"]
