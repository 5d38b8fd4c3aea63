"""Which extra of the package brings a library, and what to say when it is not installed."""

from duenotice.errors import Misconfigured

BROUGHT_BY = {
    "rich": "cli",
    "apsw": "server",
    "httptools": "server",
    "jinja2": "server",
    "prometheus_client": "server",
    "starlette": "server",
    "structlog": "server",
    "uvicorn": "server",
    "uvloop": "server",
    "pytest": "test",
    "cryptography": "azure",
    "psycopg": "postgres",
    "libvirt": "libvirt",
}


def missing_extra(error: ModuleNotFoundError, whatever: str = "This") -> Misconfigured | None:
    """The error for people when a library of one of our extras is not installed; None for any other module."""
    library = (error.name or "").partition(".")[0]
    extra = BROUGHT_BY.get(library)
    if extra is None:
        return None
    return Misconfigured(
        f"{whatever} needs the package {library}, which is not installed.", hint=f"pip install 'duenotice[{extra}]'"
    )
