"""The health check of the container: asks the service's own /readyz. Says why not, in one line."""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

SECONDS = 4


def connection() -> HTTPConnection:
    """To the operator's port, as the environment says; its certificate is for the names that others use."""
    host, _, port = os.environ.get("DUENOTICE_OPERATOR_LISTEN", "127.0.0.1:16926").rpartition(":")
    host = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}.get(host, host.strip("[]"))
    if os.environ.get("DUENOTICE_OPERATOR_CERT_FILE"):
        return HTTPSConnection(host, int(port), timeout=SECONDS, context=ssl._create_unverified_context())
    return HTTPConnection(host, int(port), timeout=SECONDS)


def main() -> str | None:
    """None when it is ready."""
    try:
        line = connection()
        line.request("GET", "/readyz")
        answer = line.getresponse()
        return None if answer.status == 200 else f"not ready: {answer.status} {answer.read(500).decode()}"
    except (OSError, HTTPException) as error:
        return f"not ready: {error}"


if __name__ == "__main__":
    sys.exit(main())
