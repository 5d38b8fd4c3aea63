"""Errors as RFC 9457 problems: one table from error class to status."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice import errors

STATUS: dict[type[errors.DuenoticeError], int] = {
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Refused: 422,
    errors.Malformed: 400,
    errors.Misconfigured: 422,
    errors.Damaged: 500,
    errors.Unavailable: 503,
    errors.InvariantBroken: 500,
    errors.DuenoticeError: 500,
}


def problem(
    status: int,
    title: str,
    hint: str = "",
    headers: dict[str, str] | None = None,
    look_at: errors.Listing | None = None,
) -> Response:
    """One problem: what happened and what to do; `look_at` lets a client say the hint in its own words."""
    body: dict[str, object] = {"type": "about:blank", "status": status, "title": title, "hint": hint}
    if look_at is not None:
        body |= {"hint": look_at.hint(f"GET /v1/{look_at.value}"), "look_at": look_at.value}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


async def on_error(_: Request, error: Exception) -> Response:
    """The answer to an error of ours."""
    if not isinstance(error, errors.DuenoticeError):
        return problem(500, "An internal error occurred.", "Look at the service's log.")
    headers = {}
    if isinstance(error, errors.Unavailable):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return problem(status, error.message, error.hint, headers, error.look_at)
