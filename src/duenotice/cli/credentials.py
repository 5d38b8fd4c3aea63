"""Which token the command line shows to the service."""

import os
from pathlib import Path

from duenotice.cli.errors import Denied
from duenotice.errors import reason


def find_token() -> str:
    """DUENOTICE_TOKEN, the file of DUENOTICE_TOKEN_FILE, or the admin token of the default data directory."""
    if token := os.environ.get("DUENOTICE_TOKEN", "").strip():
        return token
    if file := os.environ.get("DUENOTICE_TOKEN_FILE", ""):
        try:
            return Path(file).read_text().strip()
        except (OSError, ValueError) as error:
            raise Denied(
                f"Cannot read the token file {file}: {reason(error)}.", hint="Set DUENOTICE_TOKEN_FILE."
            ) from None
    return _own_token()


def _own_token() -> str:
    from duenotice.settings import default_data_dir

    try:
        return (default_data_dir() / "admin.token").read_text().strip()
    except (OSError, ValueError):
        return ""
