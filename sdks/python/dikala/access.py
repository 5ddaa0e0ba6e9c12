"""A client of the API, and what its answers are taken for."""

from __future__ import annotations

from typing import TypeVar

import httpx

from .client import AuthenticatedClient
from .models.error import Error
from .models.error_error import ErrorError
from .repeating import Repeating
from .types import UNSET

Answer = TypeVar("Answer")


class DikalaError(Exception):
    """An answer that is not a 2xx. Decide by `code`; the message is for people. Quote `request_id` to the operator."""

    def __init__(self, body: ErrorError) -> None:
        super().__init__(body.message)
        self.code = str(body.code)
        self.request_id = body.request_id
        self.fields = [] if body.fields is UNSET else list(body.fields)


def connect(url: str, api_key: str, *, retries: int = 2, timeout: float = 30.0) -> AuthenticatedClient:
    """A client for the generated operations in `dikala.api`.

    Every POST gets an `Idempotency-Key` if it has none, so that sending it again after a lost connection has the effect of one
    request. What was not sent by the service itself, such as the page of a proxy, is a `dikala.errors.UnexpectedStatus`.
    """
    return AuthenticatedClient(
        base_url=url,
        token=api_key,
        prefix="",
        auth_header_name="x-api-key",
        timeout=httpx.Timeout(timeout),
        raise_on_unexpected_status=True,
        httpx_args={"transport": Repeating(retries)},
    )


def unwrap(answer: Answer | Error | None) -> Answer:
    """What was asked for, or a `DikalaError`."""
    if isinstance(answer, Error):
        raise DikalaError(answer.error)
    # The answer to a DELETE is empty.
    return answer  # type: ignore[return-value]
