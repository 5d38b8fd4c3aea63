"""Which call a path names."""

import pytest

from duenotice.operator_api.paths import FoundPath, Paths

PATHS = Paths(
    {
        "/livez": 1,
        "/v1/vms": 2,
        "/v1/vms/{name}": 3,
        "/v1/vms/{name}/listen": 4,
        "/v1/groups/{kind}/{name}": 5,
        "/v1/nodes/{name}": 6,
        "/v1/nodes/commands": 7,
    }
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/livez", FoundPath(1, {})),
        ("/v1/vms", FoundPath(2, {})),
        ("/v1/vms/web-0", FoundPath(3, {"name": "web-0"})),
        ("/v1/vms/{name}", FoundPath(3, {"name": "{name}"})),
        ("/v1/vms/*", FoundPath(3, {"name": "*"})),
        ("/v1/vms/web-0/listen", FoundPath(4, {"name": "web-0"})),
        ("/v1/groups/set/web", FoundPath(5, {"kind": "set", "name": "web"})),
        ("/v1/nodes/a", FoundPath(6, {"name": "a"})),
        ("/v1/nodes/commands", FoundPath(7, {})),
    ],
)
def test_a_path_names_one_call_and_the_names_in_it(path: str, found: FoundPath[int]) -> None:
    assert PATHS.find(path) == found


@pytest.mark.parametrize(
    "path", ["", "/", "livez", "/livez/", "/v1/vms/", "/v1/vms//listen", "/v1/groups//web", "/v1/*", "/v1/x/y/z", "//"]
)
def test_a_path_that_is_not_there_names_nothing(path: str) -> None:
    """A name is never empty, and a slash too many is another path."""
    assert PATHS.find(path) is None
