"""OAuth 2.0 client credentials for kafka-python; confluent-kafka fetches its tokens itself."""

from __future__ import annotations

import base64
import http.client
import json
import math
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import AuthenticationFailed, Unreachable
from ktui.cluster.text import clean
from ktui.kafka.connection.properties import Secret

_CLOCK = SystemClock()
_LIMIT_S = 10.0
_FRESH = 0.8  # the share of its lifetime after which a token is replaced
_LARGEST_ANSWER = 1 << 20
_LIFE_UNKNOWN_S = 300.0
_LONGEST_LIFE_S = 86_400.0  # the longest time to keep a token, whatever the endpoint says
_ATTEMPTED = "fetching an OAuth token"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the client's secret along to wherever they lead."""

    def redirect_request(self, *_args: Any) -> None:
        """Return no request, so that the redirect itself becomes the error."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class _NoJson(Exception):
    """An answer is not usable JSON; the message gives the reason."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is untyped
    """Fetches tokens with the client credentials grant (RFC 6749, 4.4), and caches the last one."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: Secret,
        *,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._url = url
        self._id = client_id
        self._secret = client_secret
        self._scope = scope
        self._extensions = dict(extensions or {})
        self._lock = threading.Lock()
        self._token: Secret | None = None
        self._stale_at = 0.0

    def token(self) -> str:
        """Return a token that stays valid for a while; blocks while fetching a new one."""
        with self._lock:
            if self._token is None or _CLOCK.monotonic() >= self._stale_at:
                self._fetch()
            assert self._token is not None  # noqa: S101 -- for mypy: _fetch sets it or raises
            return self._token.reveal()

    def extensions(self) -> dict[str, str]:
        return self._extensions

    def _fetch(self) -> None:
        try:
            with _OPENER.open(self._request(), timeout=_LIMIT_S) as answer:
                content = _json(answer.read(_LARGEST_ANSWER + 1))
        except urllib.error.HTTPError as error:
            words = f"HTTP {error.code} {clean(str(error.reason))}"
            error.close()
            raise AuthenticationFailed(
                _ATTEMPTED,
                where=self._url,
                answer=words,
                fix="Check sasl.oauthbearer.client.id, .client.secret and .scope",
            ) from None
        except _NoJson as why:
            raise self._no_token(str(why)) from None
        except (ValueError, http.client.HTTPException):
            raise self._no_token("the answer is not HTTP") from None
        except OSError as error:
            raise Unreachable(
                _ATTEMPTED,
                where=self._url,
                answer=clean(str(getattr(error, "reason", error))),
                fix="Check sasl.oauthbearer.token.endpoint.url",
            ) from None
        self._keep(content)

    def _keep(self, content: object) -> None:
        token = content.get("access_token") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(token, str) or not token:
            raise self._no_token("the answer has no access_token")
        life = content.get("expires_in")
        self._token = Secret(token)
        self._stale_at = _CLOCK.monotonic() + _seconds(life) * _FRESH

    def _no_token(self, why: str) -> AuthenticationFailed:
        return AuthenticationFailed(
            _ATTEMPTED, where=self._url, answer=why, fix="Check sasl.oauthbearer.token.endpoint.url"
        )

    def _request(self) -> urllib.request.Request:
        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        parts = (self._id, self._secret.reveal())
        pair = ":".join(urllib.parse.quote(part, safe="") for part in parts)
        return urllib.request.Request(  # noqa: S310 -- the scheme is checked with the settings
            self._url,
            data=urllib.parse.urlencode(form).encode("ascii"),
            headers={
                "Authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}",
                "Accept": "application/json",
            },
        )


def _json(data: bytes) -> object:
    if len(data) > _LARGEST_ANSWER:
        raise _NoJson(f"the answer is larger than {_LARGEST_ANSWER // 1024**2} MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _NoJson("the answer is not JSON") from None


def _seconds(life: object) -> float:
    """Return a token's lifetime in seconds; five minutes if `life` is not a duration."""
    if not isinstance(life, int | float):
        return _LIFE_UNKNOWN_S
    capped = float(min(life, _LONGEST_LIFE_S))
    return _LIFE_UNKNOWN_S if math.isnan(capped) else capped
