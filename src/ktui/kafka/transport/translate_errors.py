"""Translation of client, TLS and network errors into cluster errors that name a fix."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka.errors import (
    BrokerResponseError,
    Cancelled,
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaProtocolError,
    KafkaTimeoutError,
    RequestTimedOutError,
    UnknownError,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.errors import KafkaError as ClientError

from ktui.cluster.errors import (
    AuthenticationFailed,
    ClusterError,
    KafkaError,
    Means,
    NotAuthorized,
    NotKafka,
    Refused,
    TimedOut,
    Unreachable,
    Unsupported,
    error_of,
    means,
)
from ktui.cluster.text import clean
from ktui.kafka.transport.pool import ANY_TIME, Call, SendDeadline

_DUMP = "Request Request("  # a broker's message that is the request's Java object, no sentence


def name_of(code: int) -> str:
    """Return Kafka's name for an error code; `ERROR_<code>` for one newer than the client."""
    if (known := error_of(code)) is not None:
        return known
    error = for_code(code)
    return f"ERROR_{code}" if issubclass(error, UnknownError) else str(error.message)


def describe_error(code: int, message: str | None) -> str:
    """Return a broker's answer in one line: Kafka's name for the error and the broker's message."""
    if not message or message.startswith(_DUMP):
        return name_of(code)
    return f"{name_of(code)}: {clean(message)}"


def describe_refusal(code: int, message: str | None, needs: str) -> str:
    """Return a broker's answer in one line, with the missing permission if it is a denial."""
    answer, denied = describe_error(code, message), means(code, Means.DENIED)
    return f"{answer.rstrip('.')}. {permission_fix(needs)}" if denied and needs else answer


def permission_fix(needs: str) -> str:
    """Return the fix for a missing permission, as a sentence."""
    return f"Grant {needs} to this principal; `ktui doctor` shows all that is missing"


_NO_BROKER = "Look for a faulty broker, or for something on the way that is not a broker"

_TLS_ALERT = 0x15
_OLD_TLS = frozenset({"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"})
_OLD_TLS_FIX = (
    "The broker offers only TLS 1.1 or older, which is not safe; ktui accepts 1.2 and newer. Set "
    "ssl.enabled.protocols=TLSv1.2,TLSv1.3 on the broker, and upgrade its Java if that lacks them"
)
_REFUSED_FIX = (
    "The broker refused our certificate: set ssl.certificate.location and ssl.key.location to one "
    "that it trusts"
)
_ALERT_FIXES = (
    (
        "CERTIFICATE_EXPIRED",
        "The client certificate (ssl.certificate.location) has expired: renew it",
    ),
    (
        "HANDSHAKE_FAILURE",
        "The broker wants a certificate (ssl.certificate.location), or no safe cipher is shared",
    ),
)
_LOGIN_FIXES = {
    "GSSAPI": "Get a ticket with kinit, and install the Python package gssapi",
    "OAUTHBEARER": "Check sasl.oauthbearer.client.id, .client.secret and .scope",
}


class Purpose(NamedTuple):
    """The purpose of a call, and the permission it needs."""

    attempted: str  # the action as a phrase: "listing reassignments"
    needs: str = ""  # the permission, in Kafka's words: "Describe on the cluster"

    def refusal(self, code: int, message: str | None, where: str = "") -> ClusterError:
        """Return the error for an answer that is an error as a whole, with the fix."""
        attempted, needs = self
        answer, error = describe_error(code, message), error_of(code)
        if means(code, Means.DENIED):
            fix = permission_fix(needs)
            return NotAuthorized(attempted, where=where, answer=answer, fix=fix, needs=needs)
        if error is KafkaError.UNSUPPORTED_VERSION:
            return Unsupported(attempted, where=where, answer=answer, fix="Upgrade the brokers")
        if error is KafkaError.REQUEST_TIMED_OUT:
            return TimedOut(attempted, where=where, answer=answer)
        return Refused(attempted, code=name_of(code), where=where, answer=answer)


class CallContext(NamedTuple):
    """The circumstances of a call: the action, the address and the security protocol."""

    attempted: str
    where: str
    protocol: str
    mechanism: str
    known: bool  # whether the cluster has answered before, which proves that it is Kafka

    def error(self, kind: type[ClusterError], answer: str, fix: str = "") -> ClusterError:
        return kind(self.attempted, where=self.where, answer=clean(answer), fix=fix)


def translate_error(error: BaseException, context: CallContext, call: Call) -> ClusterError:
    """Return the cluster error for an exception of kafka-python, TLS or the network."""
    if isinstance(error, ClusterError):
        return error
    if isinstance(error, IncompatibleBrokerVersion):
        return context.error(Unsupported, _message(error), "Upgrade the brokers")
    translate = next((t for kinds, t in _TRANSLATORS if isinstance(error, kinds)), None)
    if translate is not None:
        return translate(error, context, call)
    may_be_login = not isinstance(error, ClientError) or isinstance(error, KafkaConfigurationError)
    if may_be_login and not call.accepted and context.protocol.startswith("SASL"):
        # The SASL mechanisms raise all sorts of errors: a missing library, a bad answer or token.
        return context.error(AuthenticationFailed, _message(error), _credentials_fix(context))
    return context.error(Unreachable, _message(error))


def most_informative(failures: Sequence[ClusterError]) -> ClusterError:
    """Choose the most informative failure, and name every address that failed the same way."""
    order = (AuthenticationFailed, NotKafka, Unsupported, TimedOut, Unreachable)
    found = min(failures, key=lambda e: next((i for i, k in enumerate(order) if type(e) is k), 9))
    alike = [e.where for e in failures if type(e) is type(found) and e.answer == found.answer]
    found.where = ", ".join(dict.fromkeys(alike))
    return found


def _message(error: BaseException) -> str:
    return " ".join(str(arg) for arg in error.args) or type(error).__name__


def _tls_error(error: Any, context: CallContext, _call: Call) -> ClusterError:
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message.rstrip(".")
        return context.error(AuthenticationFailed, words, _certificate_fix(error))
    if reason in _OLD_TLS:
        return context.error(NotKafka, f"TLS {reason}", _OLD_TLS_FIX)
    if "ALERT" in reason:
        fix = next((fix for alert, fix in _ALERT_FIXES if alert in reason), _REFUSED_FIX)
        return context.error(AuthenticationFailed, f"TLS {reason}", fix)
    return context.error(NotKafka, f"TLS {reason}", _plain_fix(context))


def _certificate_fix(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
            return _name_fix(error.verify_message, ip=error.verify_code == 64)  # noqa: PLR2004
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return "Renew the broker's certificate. If it has not expired, set this machine's clock"
        case 9:  # X509_V_ERR_CERT_NOT_YET_VALID
            return "Check this machine's clock, and the start of the broker certificate's validity"
        case 23:  # X509_V_ERR_CERT_REVOKED
            return "The authority has revoked it: give the broker a new certificate"
        case 3 | 11 | 12:  # X509_V_ERR_UNABLE_TO_GET_CRL, CRL_NOT_YET_VALID, CRL_HAS_EXPIRED
            return "Set ssl.crl.location to a current list from the authority, or leave it out"
    return (
        "Set ssl.ca.location to the PEM file of the authority that signed the broker's certificate"
    )


def _name_fix(message: str, *, ip: bool) -> str:
    """Return the fix for a certificate with other names; it never advises to skip the check."""
    named = re.search(r"'(.+)'", message)
    host = named[1] if named else "the host"
    entry = f"{'IP' if ip else 'DNS'}:{host}"
    return (
        "Connect by a name that is in the certificate: bootstrap.servers here, and "
        "advertised.listeners on the broker. Or have the certificate reissued with "
        f"{entry} among its subject alternative names"
    )


def _plain_fix(context: CallContext) -> str:
    plain = "SASL_PLAINTEXT" if context.protocol.startswith("SASL") else "PLAINTEXT"
    return (
        f"The port may not use TLS: try another port, or security.protocol={plain} if nothing on "
        "the way needs to be kept secret"
    )


def _tls_fix(context: CallContext) -> str:
    tls = "SASL_SSL" if context.protocol.startswith("SASL") else "SSL"
    return f"The port may use TLS: try security.protocol={tls}, or another port"


def _not_kafka_error(error: Any, context: CallContext, _call: Call) -> ClusterError:
    """Describe the first bytes of an answer; kafka-python reads them as a frame's length."""
    words, _, number = _message(error).rpartition(" ")
    length = int(number) if number.lstrip("-").isdigit() else None
    head = b"" if length is None else length.to_bytes(4, "big", signed=True)
    if head[:1] == bytes([_TLS_ALERT]):
        return context.error(NotKafka, "the answer is a TLS alert", _tls_fix(context))
    fix = "Check the port: this is not Kafka's"
    if head and head.isascii() and head.decode().isprintable():
        return context.error(NotKafka, f"the answer begins with {head.decode()!r}", fix)
    if length is not None and words.startswith("Invalid frame length"):
        announced = f"it announces an answer of {length:,} bytes, which is too large"
        return context.error(NotKafka, announced, _NO_BROKER if context.known else fix)
    return context.error(NotKafka, _message(error), fix)


def _timeout_error(_error: BaseException, context: CallContext, call: Call) -> ClusterError:
    if not call.reached:
        return context.error(
            Unreachable, "no connection in time", "Check host and port, and firewalls on the way"
        )
    if not call.accepted and not context.known:
        return context.error(
            TimedOut, "it accepted the connection and sent nothing", _tls_fix(context)
        )
    return context.error(TimedOut, "", "The broker may be overloaded or hanging")


def _network_error(error: Any, context: CallContext, call: Call) -> ClusterError:
    if isinstance(error, socket.gaierror):
        return context.error(Unreachable, error.strerror or str(error), "Check the host name")
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return _closed_error(error, context, call)
    words = (error.strerror or str(error)).lower()
    return context.error(Unreachable, words, "Check host and port, and that the broker runs")


def _closed_error(error: BaseException, context: CallContext, call: Call) -> ClusterError:
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLError):
        return _tls_error(cause, context, call)
    if context.known:
        return context.error(Unreachable, f"the connection was closed ({_message(error)})")
    if call.accepted and not context.protocol.startswith("SASL"):
        login = "SASL_SSL" if context.protocol == "SSL" else "SASL_PLAINTEXT"
        fix = f"The listener may want a login: try security.protocol={login}"
        return context.error(NotKafka, "it closed the connection at our first request", fix)
    fix = _plain_fix(context) if context.protocol.endswith("SSL") else _tls_fix(context)
    return context.error(NotKafka, "it closed the connection before its first answer", fix)


def _login_error(error: Any, context: CallContext, _call: Call) -> ClusterError:
    match error:
        case UnsupportedSaslMechanismError():
            fix = "Set sasl.mechanism to one that the listener enables"
        case IllegalSaslStateError():
            tls = "SSL" if context.protocol.endswith("SSL") else "PLAINTEXT"
            fix = (
                f"The listener does not use SASL: set security.protocol={tls}, or use another port"
            )
        case _:
            fix = _credentials_fix(context)
    words = re.sub(r"^\w+Error: ", "", _message(error)) if error.args else name_of(error.errno)
    return context.error(AuthenticationFailed, words, fix)


def _credentials_fix(context: CallContext) -> str:
    if not context.protocol.startswith("SASL"):
        return "Check the client certificate"
    return _LOGIN_FIXES.get(context.mechanism, "Check sasl.username, sasl.password, sasl.mechanism")


_Translator = Callable[[Any, CallContext, Call], ClusterError]

_TRANSLATORS: tuple[tuple[tuple[type[BaseException], ...], _Translator], ...] = (
    ((ssl.SSLError,), _tls_error),
    ((KafkaProtocolError,), _not_kafka_error),
    ((KafkaTimeoutError, RequestTimedOutError, TimeoutError), _timeout_error),
    ((OSError,), _network_error),
    ((KafkaConnectionError, Cancelled), _closed_error),
    ((BrokerResponseError,), _login_error),
)


NodeId = int | str  # a broker id, or kafka-python's name for a bootstrap address ("bootstrap-0")

FIRST_S = 2.0
"""Seconds for a read from one broker while another could be asked; doubled with each failure. The
broker may hang, and a view waits for the answer."""

_MOST_FAILURES = 2  # a node that has failed this often in one call is not asked again


class Attempts:
    """The attempts of one call, at most two a node; `hasty` asks others while one may answer."""

    def __init__(
        self, limit_s: float, *, hasty: bool = False, leave: SendDeadline = ANY_TIME
    ) -> None:
        self._deadline = leave
        self._until = time.monotonic() + limit_s
        self._hasty = hasty
        self._failed: Counter[NodeId] = Counter()
        self._failures: list[ClusterError] = []

    def left_s(self) -> float:
        return self._until - time.monotonic()

    def choose(self, nodes: Sequence[NodeId]) -> tuple[NodeId, Call] | None:
        """Return the next node and its call; None when it is time to give up.

        While others are left to ask, a node gets half of the time left, or less if hasty.
        """
        left_s = self.left_s()
        candidates = sorted(
            (n for n in nodes if self._failed[n] < _MOST_FAILURES), key=self._failed.__getitem__
        )
        if not candidates or left_s <= 0 or self._deadline.passed:
            return None
        limit_s = left_s if len(candidates) == 1 else self._share_s(left_s)
        return candidates[0], Call(limit_s, self._deadline)

    def _share_s(self, left_s: float) -> float:
        most_s = FIRST_S * 2 ** len(self._failures) if self._hasty else left_s
        return min(left_s / 2, most_s)

    @property
    def too_late(self) -> bool:
        return self._deadline.passed

    def failed(self, node: NodeId, error: ClusterError, *, for_good: bool) -> None:
        self._failed[node] += _MOST_FAILURES if for_good else 1
        self._failures.append(error)

    def answered(self) -> None:
        """Forget the failures before an answer: they do not explain a later failure."""
        self._failures.clear()

    @property
    def failure(self) -> ClusterError | None:
        return most_informative(self._failures) if self._failures else None
