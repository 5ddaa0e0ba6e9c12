"""The lists that grow, from the newest to the oldest, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from .access import unwrap
from .api.calls import calls_list
from .api.credits_ import credits_transactions
from .api.webhooks import webhooks_deliveries
from .client import AuthenticatedClient
from .models.call import Call
from .models.delivery import Delivery
from .models.transaction import Transaction

LIMIT = 100


def each_call(client: AuthenticatedClient, **filters: Any) -> Iterator[Call]:
    """All calls, newest first. Calls that come in meanwhile do not move it. Takes the filters of `calls_list`."""
    while True:
        page = unwrap(calls_list.sync(client=client, limit=LIMIT, **filters))
        yield from page.calls
        if not page.has_more or not page.calls:
            return
        filters["before"] = page.calls[-1].id


def each_transaction(client: AuthenticatedClient) -> Iterator[Transaction]:
    """All credit transactions, newest first."""

    def read(offset: int) -> tuple[list[Transaction], bool]:
        page = unwrap(credits_transactions.sync(client=client, limit=LIMIT, offset=offset))
        return page.transactions, page.has_more

    return _each_once(read)


def each_delivery(client: AuthenticatedClient, webhook_id: str, **filters: Any) -> Iterator[Delivery]:
    """All deliveries of a webhook, newest first. Takes the filters of `webhooks_deliveries`."""

    def read(offset: int) -> tuple[list[Delivery], bool]:
        page = unwrap(webhooks_deliveries.sync(webhook_id, client=client, limit=LIMIT, offset=offset, **filters))
        return page.deliveries, page.has_more

    return _each_once(read)


class _Row(Protocol):
    id: str


Row = TypeVar("Row", bound=_Row)


def _each_once(read: Callable[[int], tuple[list[Row], bool]]) -> Iterator[Row]:
    """What is added in front while pages are read pushes rows on to the next page: they come once all the same."""
    seen: set[str] = set()
    offset = 0
    more = True
    while more:
        rows, more = read(offset)
        for row in rows:
            if row.id not in seen:
                seen.add(row.id)
                yield row
        offset += LIMIT
