"""The fleet file of a hypervisor, which says more about its domains. It is read again when it has changed."""

from duenotice.bootstrap.fleet_file import text_of
from duenotice.domain.fleet import Declaration
from duenotice.errors import DuenoticeError
from duenotice.wire.fleet_toml import read_fleet


class MappingFile:
    """Read at once: a file that is not valid at the start is an error. Without a path it says nothing."""

    def __init__(self, path: str = "") -> None:
        self._path, self._text = path, text_of(path) if path else ""
        self.says: Declaration | None = read_fleet(self._text, path) if path else None

    def reread(self) -> str:
        """Why the file as it is now does not count; empty if it does."""
        try:
            text = text_of(self._path) if self._path else ""
            if text != self._text:
                self.says, self._text = read_fleet(text, self._path), text
        except DuenoticeError as error:
            return f"{error.message} {error.hint} What it said before counts."
        return ""
