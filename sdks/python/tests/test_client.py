"""What the client does on its own: sending again, reading lists to their end, errors. And that nothing was left out."""

import asyncio
import importlib
import json
import os
import pathlib
import pkgutil
import unittest

import dikala
import dikala.api
import httpx
from dikala import models
from dikala.access import DikalaError, connect, unwrap
from dikala.api.agents import agents_create, agents_delete
from dikala.errors import UnexpectedStatus
from dikala.lists import each_call, each_delivery, each_transaction
from dikala.repeating import Repeating

SOURCES = pathlib.Path(os.environ["DIKALA_SOURCES"])
DESCRIPTION = json.loads((SOURCES / "openapi.json").read_text("utf-8"))
BODY = models.AgentCreate(name="Ayu", system_prompt="Be brief.")
AT_ONCE = {"retry-after": "0"}
SCHEMAS = DESCRIPTION["components"]["schemas"]


def refusal(status, code, headers=AT_ONCE):
    fields = [{"field": "name", "code": "required", "message": "name is required."}]
    body = {"error": {"code": code, "message": "No.", "requestId": "req_1", "fields": fields}}
    return httpx.Response(status, json=body, headers=headers)


def lost(request):
    raise httpx.ConnectError("nobody is there", request=request)


def made(**changes):
    return httpx.Response(201, json={**SCHEMAS["Agent"]["example"], **changes})


def against(*answers, retries=2):
    """A client, what it asked, and the answers that it gets one after the other; a function is called with the request."""
    asked, answers = [], list(answers)

    def handle(request):
        asked.append(request)
        answer = answers.pop(0)
        return answer(request) if callable(answer) else answer

    transport = httpx.MockTransport(handle)
    client = connect("http://dikala.test/", "dkl_key", retries=retries)
    own = client.get_httpx_client()
    own._transport = Repeating(retries, transport=transport)
    client.get_async_httpx_client()._transport = Repeating(retries, async_transport=transport)
    return client, asked


class Client(unittest.TestCase):
    def test_a_request_has_the_key_and_the_address(self):
        client, asked = against(made())
        unwrap(agents_create.sync(client=client, body=BODY))
        self.assertEqual(str(asked[0].url), "http://dikala.test/api/v1/agents")
        self.assertEqual(asked[0].headers["x-api-key"], "dkl_key")

    def test_it_sends_again_by_itself(self):
        client = connect("http://dikala.test", "dkl_key", retries=7)
        for own in (client.get_httpx_client(), client.get_async_httpx_client()):
            self.assertIsInstance(own._transport, Repeating)
            self.assertEqual(own._transport._retries, 7)

    def test_a_post_is_sent_again_under_one_key_until_it_is_answered(self):
        for send in (agents_create.sync, lambda **given: asyncio.run(agents_create.asyncio(**given))):
            passing = [refusal(503, "unavailable"), refusal(409, "idempotency_in_progress"), refusal(429, "rate_limited")]
            client, asked = against(lost, *passing, made(name="Ayu"), retries=4)
            self.assertEqual(unwrap(send(client=client, body=BODY)).name, "Ayu")
            self.assertEqual(len(asked), 5)
            self.assertEqual(len({request.headers["idempotency-key"] for request in asked}), 1)
            self.assertEqual({request.content for request in asked}, {asked[0].content})

    def test_two_posts_have_two_keys_and_ones_own_key_stays(self):
        client, asked = against(made(), made(), made())
        for own in ({}, {}, {"idempotency_key": "order-7"}):
            agents_create.sync(client=client, body=BODY, **own)
        keys = [request.headers["idempotency-key"] for request in asked]
        self.assertEqual((len(set(keys)), keys[2]), (3, "order-7"))

    def test_what_does_not_pass_is_not_sent_again(self):
        for answer in [
            refusal(422, "validation_failed"),
            refusal(409, "function_exists"),
            refusal(500, "internal_error"),
            refusal(429, "rate_limited", {"retry-after": "61"}),
        ]:
            client, asked = against(answer)
            with self.assertRaises(DikalaError):
                unwrap(agents_create.sync(client=client, body=BODY))
            self.assertEqual(len(asked), 1)
        client, asked = against(lost)
        with self.assertRaises(httpx.ConnectError):
            agents_delete.sync(client=client, id="agent_1")
        self.assertEqual(len(asked), 1)

    def test_it_gives_up_after_so_many_repeats(self):
        client, asked = against(*[refusal(503, "unavailable")] * 3)
        with self.assertRaises(DikalaError) as raised:
            unwrap(agents_create.sync(client=client, body=BODY))
        self.assertEqual((raised.exception.code, len(asked)), ("unavailable", 3))

    def test_unwrap_raises_what_the_service_said(self):
        client, _ = against(refusal(422, "validation_failed"), httpx.Response(502, text="<h1>Bad gateway</h1>"))
        with self.assertRaises(DikalaError) as raised:
            unwrap(agents_create.sync(client=client, body=BODY))
        said = raised.exception
        self.assertEqual((said.code, said.request_id, said.fields[0].field), ("validation_failed", "req_1", "name"))
        with self.assertRaises(UnexpectedStatus):
            agents_create.sync(client=client, body=BODY)
        client, _ = against(httpx.Response(204))
        self.assertIsNone(unwrap(agents_delete.sync(client=client, id="agent_1")))


def pages(name, item, *sizes):
    """Pages of rows whose ids count up; a negative size begins so many rows before the end of the page before."""
    first, answers = 0, []
    for index, (skipped_back, size) in enumerate(sizes):
        first -= skipped_back
        rows = [{**SCHEMAS[item]["example"], "id": f"row_{first + row}"} for row in range(size)]
        first += size
        page = {name: rows, "limit": 100, "offset": 0, "hasMore": index + 1 < len(sizes)}
        answers.append(httpx.Response(200, json=page))
    return answers, [f"row_{row}" for row in range(first)]


class Lists(unittest.TestCase):
    def test_every_list_that_grows_can_be_read_to_its_end(self):
        growing = {name for name, schema in SCHEMAS.items() if "hasMore" in schema.get("required", [])}
        self.assertEqual(growing, {"CallList", "TransactionList", "DeliveryList"})

    def test_calls_are_read_on_from_the_oldest_that_was_seen(self):
        answers, expected = pages("calls", "Call", (0, 100), (0, 100), (0, 3))
        client, asked = against(*answers)
        status = models.CallsListStatus.ENDED
        self.assertEqual([call.id for call in each_call(client, status=status)], expected)
        self.assertEqual([request.url.params.get("before") for request in asked], [None, "row_99", "row_199"])
        self.assertEqual({request.url.params["status"] for request in asked}, {"ended"})

    def test_what_is_pushed_on_to_the_next_page_comes_once(self):
        answers, expected = pages("transactions", "Transaction", (0, 100), (3, 10))
        client, asked = against(*answers)
        self.assertEqual([row.id for row in each_transaction(client)], expected)
        self.assertEqual([request.url.params["offset"] for request in asked], ["0", "100"])
        answers, expected = pages("deliveries", "Delivery", (0, 100), (100, 101))
        client, asked = against(*answers)
        self.assertEqual([row.id for row in each_delivery(client, "wh_1")], expected)
        self.assertEqual(asked[0].url.path, "/api/v1/webhooks/wh_1/deliveries")

    def test_a_list_that_cannot_be_read_raises(self):
        client, _ = against(refusal(401, "invalid_api_key"))
        with self.assertRaises(DikalaError):
            list(each_transaction(client))


class Description(unittest.TestCase):
    def test_checkers_of_types_look_at_it(self):
        self.assertTrue(pathlib.Path(dikala.__file__).with_name("py.typed").is_file())

    def test_every_operation_was_made(self):
        described = {
            operation["operationId"].replace(".", "_").replace("_", "").lower()
            for path in DESCRIPTION["paths"].values()
            for operation in path.values()
        }
        made = set()
        for module in pkgutil.walk_packages(dikala.api.__path__, "dikala.api."):
            importlib.import_module(module.name)
            if not module.ispkg:
                made.add(module.name.rsplit(".", 1)[1].replace("_", ""))
        self.assertEqual(made, described)

    def test_the_shortest_bodies_are_what_the_documentation_says(self):
        webhook = {"url": "https://example.com/hooks", "events": ["call.ended"], "secret": "at-least-8-characters"}
        function = {"name": "check_stock", "description": "Looks up what is there.", "endpoint": "https://example.com/stock"}
        events = [models.WebhookCreateEventsItem.CALL_ENDED]
        for body, expected in [
            (BODY, {"name": "Ayu", "systemPrompt": "Be brief."}),
            (models.WebhookCreate(url=webhook["url"], events=events, secret=webhook["secret"]), webhook),
            (models.FunctionCreate(**function), function),
            (models.AgentUpdate(), {}),
            (models.FunctionTest(), {}),
        ]:
            self.assertEqual(body.to_dict(), expected)


if __name__ == "__main__":
    unittest.main()
