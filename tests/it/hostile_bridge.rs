//! Bridges that overload, do not read, or were revoked: they affect nobody else.

use std::rc::Rc;

use actix_web::rt;
use awc::ws::CloseCode;
use futures_util::future::join_all;

use crate::support::{
    bridge::{BridgeSocketEnd, post_raw},
    prelude::*,
    raw_socket::{GOES_ON, RawSocket, TEXT, TEXT_GOES_ON},
    tenant::text,
};

/// As many as fit into one message.
const LISTED: usize = 7_000;
const SOCKETS: usize = 8;
/// An idle service takes about 60 MB in a build for tests.
const MEMORY_MB_MAX: u64 = 500;

async fn another_bridge(world: &TestWorld) -> (String, String) {
    let created = world.server.cli(&["bridge", "create", "--name", "bad"]);
    (text(&created, "id"), text(&created, "token"))
}

#[actix_web::test]
async fn a_message_that_cannot_be_read_is_refused_alone() {
    let world = world!(Sqlite);
    let hidden = json!({"$serde_json::private::RawValue": "1"});
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let messages = json!({"messages": [
        {"id": "1", "type": "call.function", "callId": "c", "parameters": hidden},
        {"id": "2", "type": "heartbeat"},
        {"id": "3", "type": "heartbeat", "activeCalls": deep},
    ]});
    let (_, token) = another_bridge(&world).await;
    let bearer = format!("Bearer {token}");
    let answer = post_raw(&world.server.http, Some(&bearer), messages).await;
    let answer = answer.expect(200);
    let replies = &answer["replies"];
    for (place, id, ok) in [(0, "1", false), (1, "2", true), (2, "3", false)] {
        assert_eq!(replies[place]["replyTo"], id, "{replies}");
        assert_eq!(replies[place]["ok"], ok, "{replies}");
    }
}

fn list_of_calls(number: usize) -> String {
    let calls: Vec<_> = (0..LISTED)
        .map(|i| format!("call_{:026}", number * LISTED + i))
        .collect();
    json!({"id": number.to_string(), "type": "heartbeat", "activeCalls": calls}).to_string()
}

/// Opens a socket for each message and sends it as fast as possible without reading, until the task is aborted.
async fn floods(
    world: &TestWorld,
    token: &str,
    messages: Vec<String>,
) -> Vec<rt::task::JoinHandle<()>> {
    let mut sockets = Vec::new();
    // All are open before the first flood takes the processor: the service waits 5 s for the head of a request.
    for _ in &messages {
        sockets.push(RawSocket::open(&world.server.http, token).await);
    }
    let flood = |(mut socket, message): (RawSocket, String)| {
        rt::spawn(async move { while socket.send(TEXT, message.as_bytes()).await {} })
    };
    sockets.into_iter().zip(messages).map(flood).collect()
}

/// Runs a hundred calls of another bridge and as many requests, all of which must succeed.
async fn others_are_served(world: &TestWorld, bridge: &TestBridge) {
    let tenant = &world.tenant;
    for number in 0..100 {
        let incoming = json!({"bridgeCallId": format!("other-{number}"), "did": tenant.did,
            "callerNumber": "+6281234567890"});
        let taken = carried_out(bridge, "call.incoming", incoming).await;
        let call = taken["callId"].clone();
        carried_out(bridge, "call.answered", json!({"callId": call})).await;
        // 408: on a machine that others fill, too, the service may read a head too late. A client repeats then.
        let answer = eventually("an answer", async || {
            let answer = tenant.api.get("/agents").await;
            (answer.status != 408).then_some(answer)
        });
        answer.await.expect(200);
        carried_out(bridge, "call.hangup", json!({"callId": call})).await;
    }
}

/// Repeats a message as bridges do: on a machine that others fill, too, a write may be refused as `unavailable`.
async fn carried_out(bridge: &TestBridge, kind: &str, fields: Value) -> Value {
    let message = bridge.message(kind, fields);
    let reply = eventually("a reply", async || {
        let reply = bridge.send(&message).await;
        (reply["error"]["code"] != "unavailable").then_some(reply)
    });
    let reply = reply.await;
    assert_eq!(reply["ok"], true, "{reply}");
    reply
}

#[rstest]
#[actix_web::test]
async fn a_bridge_that_lists_thousands_of_calls_on_many_sockets_starves_nobody(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (_, token) = another_bridge(&world).await;
    let healthy = world.tenant.bridge(Socket).await;
    let messages = (0..SOCKETS).map(list_of_calls).collect();
    let floods = floods(&world, &token, messages).await;
    others_are_served(&world, &healthy).await;
    let memory = world.server.peak_memory_mb();
    println!("{memory} MB at most");
    assert!(memory < MEMORY_MB_MAX, "{memory} MB");
    for flood in floods {
        flood.abort();
    }
}

#[actix_web::test]
async fn a_bridge_that_does_not_read_what_it_asks_for_holds_nothing() {
    let world = world!(Postgres);
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({"systemPrompt": "x".repeat(32_000)}))
        .await;
    let (_, token) = another_bridge(&world).await;
    let incoming = json!({
        "id": "1", "type": "call.incoming", "bridgeCallId": "same", "did": tenant.did, "callerNumber": "+6281",
    });
    let healthy = tenant.bridge(Socket).await;
    let floods = floods(&world, &token, vec![incoming.to_string(); SOCKETS]).await;
    // Each flood stalls in the end: its replies are not read, so its messages are not read either.
    join_all(floods).await;
    others_are_served(&world, &healthy).await;
    let memory = world.server.peak_memory_mb();
    println!("{memory} MB at most");
    assert!(memory < MEMORY_MB_MAX, "{memory} MB");
}

#[actix_web::test]
async fn a_list_with_anything_but_calls_of_ours_drops_no_call() {
    let world = world!(Postgres);
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    for list in [
        json!(["sip-4711"]),
        json!([call, "call_x"]),
        json!([7]),
        json!([null]),
    ] {
        let error = bridge
            .refused("heartbeat", json!({"activeCalls": list}))
            .await;
        assert_eq!(error["code"], "invalid_message", "{list}");
    }
    let reply = bridge.ok("heartbeat", json!({"activeCalls": [call]})).await;
    assert_eq!(reply["ended"], json!([]));
    assert_eq!(tenant.call(&call).await["status"], "answered");
}

#[actix_web::test]
async fn frames_that_are_wrong_close_with_the_code_that_says_how() {
    let world = world!(Sqlite);
    let (_, token) = another_bridge(&world).await;
    let mebibyte = vec![b'x'; 1 << 20];
    for (frames, code) in [
        (vec![(TEXT, &b"\xff\xfe"[..])], 1007),
        (
            vec![(TEXT_GOES_ON, &b"{\"a\": \"\xc3"[..]), (0x80, &b"\"}"[..])],
            1007,
        ),
        (
            vec![(TEXT_GOES_ON, &mebibyte[..]), (GOES_ON, &b"x"[..])],
            1009,
        ),
        (vec![(TEXT, &mebibyte[..]), (TEXT, &b""[..])], 1009),
        (vec![(GOES_ON, &b"x"[..])], 1002),
        // A bit of an extension.
        (vec![(TEXT | 0x40, &b"{}"[..])], 1002),
        (vec![(TEXT, &b"[]"[..])], 1008),
    ] {
        let mut socket = RawSocket::open(&world.server.http, &token).await;
        for (first, payload) in frames {
            socket.send(first, payload).await;
        }
        assert_eq!(socket.closed().await, code);
    }
    // A frame that is too long is refused at its header.
    for length in [(1 << 20) + 1, 1 << 40] {
        let mut socket = RawSocket::open(&world.server.http, &token).await;
        socket.declare(TEXT, length).await;
        assert_eq!(socket.closed().await, 1009);
    }
    // Fragments form one message.
    let mut socket = RawSocket::open(&world.server.http, &token).await;
    socket
        .send(TEXT_GOES_ON, b"{\"id\": \"1\", \"type\": ")
        .await;
    socket.send(0x80, b"\"heartbeat\"}").await;
    socket.send(TEXT, b"\xff").await;
    assert_eq!(socket.closed().await, 1007);
}

/// Happens before the first ping, which comes after 15 s.
#[actix_web::test]
async fn a_revoked_token_ends_the_open_sockets_of_its_bridge_at_once() {
    let world = world!(Postgres);
    let (id, token) = another_bridge(&world).await;
    let other = world.tenant.bridge(Socket).await;
    let sockets = [
        TestBridge::open(&world.server.http, &token, Socket).await,
        TestBridge::open(&world.server.http, &token, Socket).await,
    ];
    world.server.cli(&["bridge", "revoke", &id]);
    for socket in &sockets {
        assert_eq!(
            socket.closed().await,
            BridgeSocketEnd(Some(CloseCode::Policy))
        );
        assert_eq!(socket.pings(), 0);
    }
    other.ok("heartbeat", json!({})).await;
}

#[actix_web::test]
async fn a_bridge_with_too_many_sockets_keeps_the_newest() {
    let world = world!(Sqlite);
    let mut sockets = Vec::new();
    for _ in 0..=SOCKETS {
        sockets.push(world.tenant.bridge(Socket).await);
    }
    assert_eq!(
        sockets[0].closed().await,
        BridgeSocketEnd(Some(CloseCode::Policy))
    );
    for socket in &sockets[1..] {
        socket.ok("heartbeat", json!({})).await;
    }
}

/// The endpoints of two tenants hang, and one bridge has its maximum of invocations outstanding.
#[rstest]
#[actix_web::test]
async fn functions_that_hang_hold_up_nothing_else_of_their_bridge(
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    const TENANTS: usize = 2;
    const CALLS: usize = 16;
    const OF_A_CALL: usize = 32;
    const ENDPOINTS: usize = 4;
    let setup = WorldSetup::new().set("functions.timeout_seconds", 60);
    let world = world!(Sqlite, setup);
    let bridge = Rc::new(world.tenant.bridge(transport).await);
    let mut waiting = Vec::new();
    let hangs = |endpoint: usize| format!("/hangs/{endpoint}");
    for endpoint in 0..ENDPOINTS {
        world
            .receiver
            .answer(&hangs(endpoint), [ServerAnswer::Hang]);
    }
    for _ in 0..TENANTS {
        let tenant = world.another_tenant(1_000).await;
        for endpoint in 0..ENDPOINTS {
            let url = world.receiver.url(&hangs(endpoint));
            tenant
                .create_function(&format!("f{endpoint}"), "POST", &url)
                .await;
        }
        for _ in 0..CALLS {
            let call = bridge.talk(&tenant.did).await;
            let invoke = |n: usize| {
                let name = format!("f{}", n % ENDPOINTS);
                let message = json!({"callId": call, "invocationId": n.to_string(), "name": name,
                    "parameters": {"orderId": "1"}});
                bridge.message("call.function", message)
            };
            let messages: Vec<_> = (0..OF_A_CALL).map(invoke).collect();
            let bridge = Rc::clone(&bridge);
            waiting.push(rt::spawn(async move {
                if transport == Http {
                    bridge.post(&messages).await;
                } else {
                    let replies = messages.iter().map(|message| bridge.send(message));
                    futures_util::future::select_all(replies.map(Box::pin)).await;
                }
            }));
        }
    }
    eventually("all functions are under way", async || {
        let under_way = (0..ENDPOINTS).map(|n| world.receiver.received(&hangs(n)).len());
        (under_way.sum::<usize>() == TENANTS * CALLS * OF_A_CALL).then_some(())
    })
    .await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.ok("heartbeat", json!({})).await;
    bridge.hang_up(&call).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
}
