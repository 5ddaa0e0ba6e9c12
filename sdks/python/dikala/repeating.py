"""Sending again what failed in passing."""

from __future__ import annotations

import asyncio
import time
import uuid

import httpx

# Before the first, the second, … repeat, where the service does not name a time.
PAUSES = (0.5, 2.0, 5.0)
# Who is told to wait for longer is better told so than kept.
LONGEST_PAUSE = 60


class Repeating(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends again after a lost connection, 429 and 503, and while a POST that was sent before still runs."""

    def __init__(
        self,
        retries: int,
        *,
        transport: httpx.BaseTransport | None = None,
        async_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._transport = transport
        self._async_transport = async_transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._transport is None:
            self._transport = httpx.HTTPTransport()
        _give_key(request)
        for repeat in range(self._retries):
            try:
                response = self._transport.handle_request(request)
            except httpx.TransportError:
                if request.method == "DELETE":
                    raise
                time.sleep(_usual(repeat))
                continue
            if _is_passing(request, response):
                response.read()
            pause = _pause_after(request, response, repeat)
            if pause is None:
                return response
            response.close()
            time.sleep(pause)
        return self._transport.handle_request(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._async_transport is None:
            self._async_transport = httpx.AsyncHTTPTransport()
        _give_key(request)
        for repeat in range(self._retries):
            try:
                response = await self._async_transport.handle_async_request(request)
            except httpx.TransportError:
                if request.method == "DELETE":
                    raise
                await asyncio.sleep(_usual(repeat))
                continue
            if _is_passing(request, response):
                await response.aread()
            pause = _pause_after(request, response, repeat)
            if pause is None:
                return response
            await response.aclose()
            await asyncio.sleep(pause)
        return await self._async_transport.handle_async_request(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def aclose(self) -> None:
        if self._async_transport is not None:
            await self._async_transport.aclose()


def _give_key(request: httpx.Request) -> None:
    if request.method == "POST" and "idempotency-key" not in request.headers:
        request.headers["idempotency-key"] = str(uuid.uuid4())


def _usual(repeat: int) -> float:
    return PAUSES[min(repeat, len(PAUSES) - 1)]


def _is_passing(request: httpx.Request, response: httpx.Response) -> bool:
    # Whether a DELETE was carried out cannot be told any more: its repeat would be a 404 either way.
    unavailable = response.status_code == 503 and request.method != "DELETE"
    return unavailable or response.status_code in (409, 429)


def _pause_after(request: httpx.Request, response: httpx.Response, repeat: int) -> float | None:
    """How long to wait before the request is sent again; none where its answer stands."""
    if not _is_passing(request, response):
        return None
    if response.status_code == 409 and b'"idempotency_in_progress"' not in response.content:
        return None
    seconds = response.headers.get("retry-after", "")
    pause = int(seconds) if seconds.isascii() and seconds.isdigit() else _usual(repeat)
    return None if pause > LONGEST_PAUSE else pause
