"""The formats of JSON Schema, checked by ourselves: jsonschema leaves most of them to packages that may be absent.

Each check says whether a string is of the format. Where a source leaves room, both readings are right.
Every pattern here is free of nested repeats, so that a hostile string costs no more than its length.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable

# Longer strings than this are of no format here (characters): an e-mail address has 254, a URI some thousand.
_LONGEST = 10_000

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,100})?([zZ]|[+-]([0-9]{2}):([0-9]{2}))")
_DURATION = re.compile(
    r"P(?:(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)?"
    r"(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|[0-9]+W)"
)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_QUOTED_LOCAL = re.compile(r'"(?:[ !#-\[\]-~]|\\[ -~])*"')
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_URI_CHARACTERS = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def _is_date(text: str) -> bool:
    """RFC 3339 section 5.6, full-date: a day of the calendar."""
    if not _DATE.fullmatch(text):
        return False
    year, month, day = (int(part) for part in text.split("-"))
    try:
        datetime.date(year or 2000, month, day)  # the RFC has a year 0000 (a leap year), Python has none
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    """RFC 3339 section 5.6, full-time: with an offset; second 60 is the leap second, 23:59:60 in UTC."""
    found = _TIME.fullmatch(text)
    if not found:
        return False
    hour, minute, second = (int(found[i]) for i in (1, 2, 3))
    off_hour, off_minute = int(found[6] or 0), int(found[7] or 0)
    if hour > 23 or minute > 59 or second > 60 or off_hour > 23 or off_minute > 59:
        return False
    sign = -1 if found[5].startswith("+") else 1
    utc = (hour * 60 + minute + sign * (off_hour * 60 + off_minute)) % 1440
    return second < 60 or utc == 1439


def _is_date_time(text: str) -> bool:
    """RFC 3339 section 5.6, date-time. The note there allows a space for the T."""
    return len(text) > 10 and text[10] in "Tt " and _is_date(text[:10]) and _is_time(text[11:])


def _is_duration(text: str) -> bool:
    """RFC 3339 appendix A (from ISO 8601): at least one component."""
    return bool(_DURATION.fullmatch(text)) and text[-1] not in "PT"


def _is_hostname(text: str) -> bool:
    """RFC 1123 section 2.1: labels of letters, digits and inner hyphens, 253 characters in all."""
    return 0 < len(text) <= 253 and all(_LABEL.fullmatch(label) for label in text.split("."))


def _is_email(text: str) -> bool:
    """RFC 5321 section 4.1.2, Mailbox: dotted or quoted local part; a host name or an address in brackets."""
    local, at, domain = text.rpartition("@")
    if not at or not (_LOCAL.fullmatch(local) or _QUOTED_LOCAL.fullmatch(local)):
        return False
    if domain.startswith("[") and domain.endswith("]"):
        inner = domain[1:-1]
        return _is_ipv6(inner[5:]) if inner.lower().startswith("ipv6:") else _is_ipv4(inner)
    return _is_hostname(domain)


def _is_ipv4(text: str) -> bool:
    """RFC 2673 section 3.2, dotted-quad."""
    try:
        return text.isascii() and bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False


def _is_ipv6(text: str) -> bool:
    """RFC 4291 section 2.2; a zone (RFC 4007) is no part of the address."""
    try:
        return "%" not in text and ipaddress.IPv6Address(text) is not None
    except ValueError:
        return False


def _is_uuid(text: str) -> bool:
    """RFC 4122 section 3: 8-4-4-4-12 hexadecimal digits."""
    return bool(_UUID.fullmatch(text))


def _is_uri_reference(text: str) -> bool:
    """RFC 3986 section 4.1, by its characters: what is not allowed anywhere must be percent-encoded."""
    return bool(_URI_CHARACTERS.fullmatch(text)) and text.count("#") <= 1


def _is_uri(text: str) -> bool:
    """RFC 3986 section 3: with a scheme."""
    return bool(_SCHEME.match(text)) and _is_uri_reference(text)


def _is_pointer(text: str) -> bool:
    """RFC 6901 section 3."""
    return bool(_POINTER.fullmatch(text))


CHECKS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "date": _is_date,
    "time": _is_time,
    "duration": _is_duration,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "uuid": _is_uuid,
    "uri": _is_uri,
    "uri-reference": _is_uri_reference,
    "json-pointer": _is_pointer,
}


def is_of(name: str, text: str) -> bool:
    """Whether a string is of a format; a format that nobody here knows asks for nothing."""
    check = CHECKS.get(name)
    return check is None or (len(text) <= _LONGEST and check(text))
