"""The form in which checks get an exchange: that of its endpoint, or the bare HTTP exchange."""

from __future__ import annotations

from collections.abc import Mapping

from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.wire.endpoints import Endpoint, endpoint_of
from wireproof.wire.transcript import Transcript

FORMS: Mapping[Endpoint, type[Exchange]] = {Endpoint.CHAT: Chat}


def exchange_of(t: Transcript) -> Exchange:
    """A transcript as an exchange of its endpoint."""
    return FORMS.get(endpoint_of(t.request.method, t.request.path), Exchange)(t)
