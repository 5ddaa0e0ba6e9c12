#!/usr/bin/env python3
"""A complete telephony bridge for Dikala, without the telephony: it holds calls, reports what happens to them and obeys.

    export DIKALA_URL=http://127.0.0.1:8080 DIKALA_BRIDGE_TOKEN=dkb_...
    python3 examples/bridge.py --did +622150001000 --calls 3 --talk-seconds 20

It speaks the HTTP transport of dikala.bridge.v1 (docs/bridges.md). Where you see "here:", a real bridge handles media.
"""

import argparse
import datetime
import json
import os
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("DIKALA_URL", "http://127.0.0.1:8080") + "/bridge/v1/messages"
HEADERS = {"authorization": "Bearer " + os.environ.get("DIKALA_BRIDGE_TOKEN", ""), "content-type": "application/json"}
BEAT_SECONDS = 1  # commands ride on the answers; without one for 30 s our calls are dropped
TRY_AGAIN = ("busy", "unavailable")

calls = {}  # callId -> when we hang up, by time.monotonic()


def post(messages):
    """Sends messages until each has a reply that counts. Sending again is harmless: the ids stay the same."""
    while True:
        request = urllib.request.Request(URL, json.dumps({"messages": messages}).encode(), HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:  # 401: the token; anything else: our mistake
                raise SystemExit(f"{error.code}: {error.read().decode()}") from None
        except OSError as error:  # the service is away or starts again
            print("no answer:", error)
        else:
            for command in answer["commands"]:
                obey(command)
            if not any(not r["ok"] and r["error"]["code"] in TRY_AGAIN for r in answer["replies"]):
                return answer["replies"]
        time.sleep(1)


def tell(kind, **fields):
    """One message about something that happens now, and its reply."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    reply = post([{"id": str(uuid.uuid4()), "type": kind, "at": now, **fields}])[0]
    if not reply["ok"]:
        print(kind, "was refused:", reply["error"]["message"])
    return reply


def obey(command):
    call, what = command["callId"], command["command"]
    print(what, call, command.get("reason") or command.get("to"))  # here: at a warning, let the agent say goodbye
    if what == "transfer":
        hang_up(call, "transferred", "bridge")  # here: connect the caller to command["to"] first
    elif what == "hangup":
        hang_up(call, command["reason"], "bridge")


def ring(did):
    """here: a call came in from the network."""
    reply = tell("call.incoming", bridgeCallId=str(uuid.uuid4()), did=did, callerNumber="+6281234567890")
    if reply.get("action") != "answer":
        return print("not taken:", reply.get("reason", "unknown number"))
    agent = reply["agent"]  # here: start the AI with systemPrompt, voiceId, greetingText, functions
    call = reply["callId"]
    calls[call] = time.monotonic() + ARGUMENTS.talk_seconds
    tell("call.answered", callId=call)
    print("answered", call, "as", agent["name"])
    for function in agent["functions"][:1]:  # here: when the AI wants to
        arguments = {name: "1001" for name in function["parameters"].get("required", [])}
        reply = tell("call.function", callId=call, invocationId="1", name=function["name"], parameters=arguments)
        print("function", function["name"], json.dumps(reply.get("outcome")))


def hang_up(call, reason, initiator):
    if calls.pop(call, None) is None:
        return  # it is over already; here: else end the media
    tell("call.hangup", callId=call, reason=reason, initiator=initiator)
    tell("call.transcript", callId=call, summary="A call of the example bridge.", turns=[{"role": "caller", "text": "Halo?"}])
    print("ended", call, reason)


def main():
    for _ in range(ARGUMENTS.calls):
        ring(ARGUMENTS.did)
    beat_at = 0.0
    while calls:
        for call in [call for call, until in calls.items() if time.monotonic() >= until]:
            hang_up(call, "normal", "caller")
        if time.monotonic() >= beat_at:  # a sign of life; it fetches commands as well
            beat_at = time.monotonic() + BEAT_SECONDS
            for call in tell("heartbeat", activeCalls=list(calls)).get("ended", []):
                calls.pop(call, None)  # over in the books: here, end the media
        time.sleep(0.2)


parser = argparse.ArgumentParser(description="A bridge that calls itself.")
parser.add_argument("--did", required=True, help="the number that is called")
parser.add_argument("--calls", type=int, default=1)
parser.add_argument("--talk-seconds", type=float, default=20)
ARGUMENTS = parser.parse_args()
if __name__ == "__main__":
    main()
