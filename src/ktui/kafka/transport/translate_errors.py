"""What goes wrong between us and a broker, told as cluster errors that say what to do."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka.errors import (
    BrokerResponseError,
    Cancelled,
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    RequestTimedOutError,
    UnsupportedSaslMechanismError,
)

from ktui.cluster.errors import (
    AuthenticationFailed,
    ClusterError,
    NotKafka,
    TimedOut,
    Unreachable,
    Unsupported,
)
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.pool import Call

_NO_BROKER = "Look for a broken broker, or for something on the way that is none"

_TLS_ALERT = 0x15


class Purpose(NamedTuple):
    """What a call is for."""

    attempted: str
    """As a phrase: "listing reassignments"."""
    needs: str = ""
    """The permission that the call needs, in Kafka's words: "Describe on the cluster"."""


class CallContext(NamedTuple):
    """What was being done, where, and under which security protocol."""

    attempted: str
    where: str
    protocol: str
    mechanism: str
    """The SASL mechanism; empty if there is none."""
    known: bool
    """Whether the cluster has answered before, so that Kafka is known to be there."""

    def error(self, kind: type[ClusterError], answer: str, fix: str = "") -> ClusterError:
        """Make an error of one kind about this place."""
        return kind(self.attempted, where=self.where, answer=clean(answer), fix=fix)


def translated(error: BaseException, place: CallContext, call: Call) -> ClusterError:
    """Give the cluster error for what kafka-python, TLS or the network raised."""
    if isinstance(error, ClusterError):
        return error
    if isinstance(error, IncompatibleBrokerVersion):
        return place.error(Unsupported, _said(error), "Upgrade the brokers")
    found = next((tell for kinds, tell in _TELLERS if isinstance(error, kinds)), None)
    if found is not None:
        return found(error, place, call)
    of_a_login = not isinstance(error, KafkaError) or isinstance(error, KafkaConfigurationError)
    if of_a_login and not call.accepted and place.protocol.startswith("SASL"):
        # The SASL mechanisms raise all sorts: a missing library, a bad answer, a bad token.
        return place.error(AuthenticationFailed, _said(error), _credentials_fix(place))
    return place.error(Unreachable, _said(error))


def most_telling(failures: Sequence[ClusterError]) -> ClusterError:
    """Choose the failure that says most, and name every place that failed the same way."""
    order = (AuthenticationFailed, NotKafka, Unsupported, TimedOut, Unreachable)
    found = min(failures, key=lambda e: next((i for i, k in enumerate(order) if type(e) is k), 9))
    alike = [e.where for e in failures if type(e) is type(found) and e.answer == found.answer]
    found.where = ", ".join(dict.fromkeys(alike))
    return found


def _said(error: BaseException) -> str:
    """Give an error's own words, without the class name that kafka-python puts before them."""
    return " ".join(str(arg) for arg in error.args) or type(error).__name__


def _tls(error: Any, place: CallContext, _call: Call) -> ClusterError:
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message.rstrip(".")
        return place.error(AuthenticationFailed, words, _certificate_fix(error))
    if reason in _OLD_TLS:
        return place.error(NotKafka, f"TLS {reason}", _OLD_TLS_FIX)
    if "ALERT" in reason:
        fix = next((fix for alert, fix in _ALERT_FIXES if alert in reason), _REFUSED_FIX)
        return place.error(AuthenticationFailed, f"TLS {reason}", fix)
    return place.error(NotKafka, f"TLS {reason}", _plain_fix(place))


_OLD_TLS = frozenset({"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"})
_OLD_TLS_FIX = (
    "The broker offers TLS 1.1 or older only, which is not safe; ktui takes 1.2 and newer. Set "
    "ssl.enabled.protocols=TLSv1.2,TLSv1.3 on the broker, and upgrade its Java if that lacks them"
)
_REFUSED_FIX = (
    "The broker refused our certificate: set ssl.certificate.location and ssl.key.location to one "
    "that it trusts"
)
_ALERT_FIXES = (
    (
        "CERTIFICATE_EXPIRED",
        "Our certificate, that of ssl.certificate.location, has expired: renew it",
    ),
    (
        "HANDSHAKE_FAILURE",
        "The broker wants a certificate (ssl.certificate.location), or no cipher is safe for both",
    ),
)


def _certificate_fix(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
            return _name_fix(error.verify_message, ip=error.verify_code == 64)  # noqa: PLR2004
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return "Renew the broker's certificate; if it is not past, set this machine's clock"
        case 9:  # X509_V_ERR_CERT_NOT_YET_VALID
            return "Check this machine's clock, and from when on the broker's certificate is valid"
        case 23:  # X509_V_ERR_CERT_REVOKED
            return "Its authority has revoked it: give the broker a new certificate"
        case 3 | 11 | 12:  # X509_V_ERR_UNABLE_TO_GET_CRL, CRL_NOT_YET_VALID, CRL_HAS_EXPIRED
            return "Set ssl.crl.location to a list of today from the authority, or leave it out"
    return (
        "Set ssl.ca.location to the PEM file of the authority that signed the broker's certificate"
    )


def _name_fix(message: str, *, ip: bool) -> str:
    """Advise on a certificate that is for other names; never to give up comparing them."""
    named = re.search(r"'(.+)'", message)
    host = named[1] if named else "the host"
    entry = f"{'IP' if ip else 'DNS'}:{host}"
    return (
        "Connect by a name that is in the certificate: bootstrap.servers here, and "
        "advertised.listeners on the broker; or have the certificate issued anew with "
        f"{entry} among its subject alternative names"
    )


def _plain_fix(place: CallContext) -> str:
    plain = "SASL_PLAINTEXT" if place.protocol.startswith("SASL") else "PLAINTEXT"
    return (
        f"The port may not use TLS: try another port, or security.protocol={plain} if nothing on "
        "the way needs to be kept secret"
    )


def _tls_fix(place: CallContext) -> str:
    tls = "SASL_SSL" if place.protocol.startswith("SASL") else "SSL"
    return f"The port may use TLS: try security.protocol={tls}, or another port"


def _foreign(error: Any, place: CallContext, _call: Call) -> ClusterError:
    """Say what the first bytes look like; kafka-python reads them as a frame's length."""
    words, _, told = _said(error).rpartition(" ")
    length = int(told) if told.lstrip("-").isdigit() else None
    head = b"" if length is None else length.to_bytes(4, "big", signed=True)
    if head[:1] == bytes([_TLS_ALERT]):
        return place.error(NotKafka, "the answer is a TLS alert", _tls_fix(place))
    fix = "Check the port: this is not Kafka's"
    if head and head.isascii() and head.decode().isprintable():
        return place.error(NotKafka, f"the answer begins with {head.decode()!r}", fix)
    if length is not None and words.startswith("Invalid frame length"):
        announced = f"it announces an answer of {length:,} bytes, which is not read"
        return place.error(NotKafka, announced, _NO_BROKER if place.known else fix)
    return place.error(NotKafka, _said(error), fix)


def _late(_error: BaseException, place: CallContext, call: Call) -> ClusterError:
    if not call.reached:
        return place.error(
            Unreachable, "no connection in time", "Check host and port, and firewalls on the way"
        )
    if not call.accepted and not place.known:
        return place.error(TimedOut, "it took the connection and said nothing", _tls_fix(place))
    return place.error(TimedOut, "", "The broker may be overloaded or hanging")


def _network(error: Any, place: CallContext, call: Call) -> ClusterError:
    if isinstance(error, socket.gaierror):
        return place.error(Unreachable, error.strerror or str(error), "Check the host name")
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return _closed(error, place, call)
    words = (error.strerror or str(error)).lower()
    return place.error(Unreachable, words, "Check host and port, and that the broker runs")


def _closed(error: BaseException, place: CallContext, call: Call) -> ClusterError:
    """A connection that the other end closed; why depends on how far we had come."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLError):
        return _tls(cause, place, call)
    if place.known:
        return place.error(Unreachable, f"the connection was closed ({_said(error)})")
    if call.accepted and not place.protocol.startswith("SASL"):
        login = "SASL_SSL" if place.protocol == "SSL" else "SASL_PLAINTEXT"
        fix = f"The listener may want a login: try security.protocol={login}"
        return place.error(NotKafka, "it closed the connection at our first request", fix)
    fix = _plain_fix(place) if place.protocol.endswith("SSL") else _tls_fix(place)
    return place.error(NotKafka, "it closed the connection at our hello", fix)


def _rejected(error: Any, place: CallContext, _call: Call) -> ClusterError:
    """An error code in answer to the hello or to the credentials."""
    match error:
        case UnsupportedSaslMechanismError():
            fix = "Set sasl.mechanism to one that the listener enables"
        case IllegalSaslStateError():
            tls = "SSL" if place.protocol.endswith("SSL") else "PLAINTEXT"
            fix = f"The listener takes no SASL: set security.protocol={tls}, or use another port"
        case _:
            fix = _credentials_fix(place)
    words = (
        re.sub(r"^\w+Error: ", "", _said(error)) if error.args else error_codes.name_of(error.errno)
    )
    return place.error(AuthenticationFailed, words, fix)


def _credentials_fix(place: CallContext) -> str:
    if not place.protocol.startswith("SASL"):
        return "Check the client certificate"
    return _LOGIN_FIXES.get(place.mechanism, "Check sasl.username, sasl.password, sasl.mechanism")


_LOGIN_FIXES = {
    "GSSAPI": "Get a ticket by kinit, and install the Python package gssapi",
    "OAUTHBEARER": "Check sasl.oauthbearer.id, .secret and .scope",
}

_Teller = Callable[[Any, CallContext, Call], ClusterError]

_TELLERS: tuple[tuple[tuple[type[BaseException], ...], _Teller], ...] = (
    ((ssl.SSLError,), _tls),
    ((KafkaProtocolError,), _foreign),
    ((KafkaTimeoutError, RequestTimedOutError, TimeoutError), _late),
    ((OSError,), _network),
    ((KafkaConnectionError, Cancelled), _closed),
    ((BrokerResponseError,), _rejected),
)
"""What tells each kind of error; the first that fits."""
