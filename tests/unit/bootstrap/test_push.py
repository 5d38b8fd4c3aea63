"""Settings of push: wrong ones are refused by name before anything begins."""

from pathlib import Path

import pytest

from duenotice.bootstrap.drivers import check_push
from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings


@pytest.mark.parametrize("networks", ["", "127.0.0.0/8", "127.0.0.1, ::1", "10.1.2.3/8 fe80::/10"])
def test_networks_may_be_named(networks: str) -> None:
    check_push(ServeSettings(push_allow=networks))


@pytest.mark.parametrize("networks", ["localhost", "127.0.0.0/99", "*"])
def test_what_is_not_a_network_is_refused(networks: str) -> None:
    with pytest.raises(Misconfigured, match="push_allow is not valid"):
        check_push(ServeSettings(push_allow=networks))


@pytest.mark.parametrize("text", ["", "not PEM"])
def test_a_ca_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ca.pem"
    if text:
        path.write_text(text)
    with pytest.raises(Misconfigured, match="push_ca_file: cannot use"):
        check_push(ServeSettings(push_ca_file=str(path)))
