"""Who may use the dashboard: checks of the host name, the token and the origin of requests, and response headers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit

from attrs import field, frozen
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Access", "Guard", "read_body", "read_form"]

_MAX_QUERY = 4096  # characters
_MAX_BODY = 16384  # bytes
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with "no-referrer", browsers send forms with the origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@frozen(kw_only=True)
class Access:
    """The rules by which requests are accepted.

    Attributes:
        token: Token that a browser must present; empty: none is needed.
        port: Port of the server; cookies of one host are shared between its ports.
        hosts: Host names that requests may name, which keeps out names that another site has pointed at this machine;
            None: any, because no other name has the cookie with the token.
        csrf: Secret of the forms of this server.
    """

    token: str
    port: int
    hosts: frozenset[str] | None
    csrf: str = field(factory=secrets.token_urlsafe, repr=False)

    @property
    def cookie(self) -> str:
        """Return the name of the cookie with the token."""
        return f"ludus_dashboard_{self.port}"

    def is_host_known(self, request: Request) -> bool:
        """Return whether a request names a host of this server."""
        return self.hosts is None or _split(f"//{request.headers.get('host', '')}").hostname in self.hosts

    def is_token(self, token: str) -> bool:
        """Return whether a text is the token; the time does not depend on how much of it is right."""
        return bool(self.token) and secrets.compare_digest(token.encode(), self.token.encode())

    def has_token(self, request: Request) -> bool:
        """Return whether a request has the token, as a cookie or as a bearer token, or needs none."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return not self.token or self.is_token(request.cookies.get(self.cookie, "")) or self.is_token(bearer)

    def is_own_form(self, fields: Mapping[str, str]) -> bool:
        """Return whether the fields of a form have the secret of this server's pages."""
        return secrets.compare_digest(fields.get("csrf", "").encode(), self.csrf.encode())

    def is_same_origin(self, request: Request) -> bool:
        """Return whether a request comes from a page of this server, as far as the browser states it."""
        origin = request.headers.get("origin")
        is_own = origin is None or _split(origin).netloc == request.headers.get("host")
        return is_own and request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


class Guard:
    """ASGI middleware that refuses requests against the rules, and adds headers to all responses.

    Args:
        app: The application.
        access: The rules.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = _refusal(self._access, Request(scope)) or self._app
        await answer(scope, receive, send_with_headers)


def _split(address: str) -> SplitResult:
    """Return the parts of an address; those of an empty one if it is malformed."""
    try:
        parts = urlsplit(address)
        _ = parts.hostname
    except ValueError:
        return urlsplit("")
    return parts


def _refusal(access: Access, request: Request) -> Response | None:
    """Return the answer to a request that is not passed on; None for one that is."""
    if not access.is_host_known(request):
        return PlainTextResponse("unknown host name in the request; open the printed address", 421)
    if len(request.scope["query_string"]) > _MAX_QUERY:
        return PlainTextResponse(f"the query is longer than {_MAX_QUERY} characters", 414)
    if access.is_token(request.query_params.get("token", "")):
        return _with_cookie(access, request)
    if not access.has_token(request):
        return PlainTextResponse("a token is needed; open the address that `ludus dashboard` printed", 401)
    if request.method not in ("GET", "HEAD") and not access.is_same_origin(request):
        return PlainTextResponse("the request comes from another site", 403)
    return None


def _with_cookie(access: Access, request: Request) -> Response:
    """Store the token in a cookie and remove it from the address, which browsers keep in their history."""
    rest = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
    path = "/" + quote(request.scope["path"].lstrip("/"))  # two slashes would start a host name
    response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
    response.set_cookie(access.cookie, access.token, httponly=True, samesite="strict")
    return response


async def read_body(request: Request, max_bytes: int) -> bytes | None:
    """Return the body of a request; None if it is larger than allowed."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            return None
    return body


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a posted form; empty if it is too large."""
    body = await read_body(request, _MAX_BODY) or b""
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=32)
    except ValueError:  # too many fields
        return {}
    return {name: values[-1] for name, values in fields.items()}
