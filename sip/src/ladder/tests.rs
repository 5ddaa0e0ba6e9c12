//! The kept messages: which, of which calls, and for how long.

use super::*;

fn socket() -> MessageSocket {
    MessageSocket {
        transport: SipTransport::Udp,
        bound: "192.0.2.1:5060".parse().expect("an address"),
        remote: "198.51.100.1:5060".parse().expect("an address"),
    }
}

fn request(method: &str, call_id: &str, filler: usize) -> Vec<u8> {
    let filler = "x".repeat(filler);
    format!("{method} sip:a@b SIP/2.0\r\nCall-ID: {call_id}\r\nX: {filler}\r\n\r\n").into_bytes()
}

fn methods(ladders: &Ladders, id: &str) -> Vec<(String, bool)> {
    let ladder = ladders.read(id).expect("a ladder");
    let of = |message: &LadderMessage| {
        (
            message.method().expect("a request").to_owned(),
            message.is_sent,
        )
    };
    ladder.messages.iter().map(of).collect()
}

#[test]
fn the_messages_of_both_legs_are_in_one_ladder_and_others_in_none() {
    let ladders = Ladders::default();
    ladders.add("1@a", &request("OPTIONS", "1@a", 0), socket(), false);
    ladders.begin("1@a;tag", "1@a", &request("INVITE", "1@a", 0), socket());
    ladders.sent(&request("BYE", "1@a", 0), socket());
    ladders.sent(&request("INVITE", "2@b", 0), socket());
    ladders.join("1@a;tag", "2@b");
    ladders.sent(&request("ACK", "2@b", 0), socket());
    ladders.add("2@b", &request("BYE", "2@b", 0), socket(), false);
    ladders.sent(b"\r\n\r\n", socket());
    let expected = [
        ("INVITE", false),
        ("BYE", true),
        ("ACK", true),
        ("BYE", false),
    ];
    let expected = expected.map(|(method, is_sent)| (method.to_owned(), is_sent));
    assert_eq!(methods(&ladders, "1@a;tag"), expected);
    assert_eq!(ladders.read("2@b"), None);
}

/// Both legs have threads of their own.
#[test]
fn times_never_go_back() {
    let ladders = Ladders::default();
    let earlier = message(&request("BYE", "1@a", 0), socket(), true);
    ladders.begin("id", "1@a", &request("INVITE", "1@a", 0), socket());
    let mut table = ladders.table();
    let number = table.by_id["id"];
    table.push(number, earlier);
    drop(table);
    let ladder = ladders.read("id").expect("a ladder");
    assert_eq!(ladder.messages[1].method(), Some("BYE"));
    assert!(ladder.messages.is_sorted_by_key(|message| message.at));
}

#[test]
fn a_response_to_a_stranger_is_left_out() {
    let ladders = Ladders::default();
    ladders.begin("id", "1@a", &request("INVITE", "1@a", 0), socket());
    let elsewhere = MessageSocket {
        remote: "203.0.113.66:5060".parse().expect("an address"),
        ..socket()
    };
    let response = b"SIP/2.0 481 Gone\r\nCall-ID: 1@a\r\n\r\n";
    ladders.sent(response, elsewhere);
    let held = || ladders.read("id").expect("a ladder").messages.len();
    assert_eq!(held(), 1);
    ladders.sent(response, socket());
    assert_eq!(held(), 2);
    // The call moved there.
    ladders.add("1@a", &request("UPDATE", "1@a", 0), elsewhere, false);
    ladders.sent(response, elsewhere);
    assert_eq!(held(), 4);
}

/// A caller who was refused may call again with the same Call-ID.
#[test]
fn a_call_id_leads_to_the_last_call_that_has_it() {
    let ladders = Ladders::default();
    for (id, method) in [("first", "ACK"), ("second", "BYE")] {
        ladders.begin(id, "1@a", &request("INVITE", "1@a", 0), socket());
        ladders.sent(&request(method, "1@a", 0), socket());
    }
    assert_eq!(methods(&ladders, "first").len(), 2);
    assert_eq!(methods(&ladders, "second")[1].0, "BYE");
    ladders.forget("first");
    ladders.sent(&request("BYE", "1@a", 0), socket());
    assert_eq!(methods(&ladders, "second").len(), 3);
    ladders.forget("second");
    let table = ladders.table();
    assert!(table.by_call_id.is_empty() && table.by_id.is_empty());
    assert_eq!(table.bytes, 0);
}

#[test]
fn a_call_keeps_its_last_messages() {
    let ladders = Ladders::default();
    ladders.begin("id", "1@a", &request("INVITE", "1@a", 0), socket());
    for _ in 0..2 * MESSAGES_MAX {
        ladders.sent(&request("INFO", "1@a", 0), socket());
    }
    let ladder = ladders.read("id").expect("a ladder");
    assert_eq!(ladder.messages.len(), MESSAGES_MAX);
    assert_eq!(ladder.forgotten, MESSAGES_MAX as u64 + 1);
    assert!(
        ladder
            .messages
            .iter()
            .all(|message| message.method() == Some("INFO"))
    );
    for _ in 0..MESSAGES_MAX {
        ladders.sent(&request("INFO", "1@a", 8_000), socket());
    }
    let table = ladders.table();
    assert!(table.bytes <= BYTES_OF_CALL_MAX, "{}", table.bytes);
}

#[test]
fn the_oldest_calls_are_forgotten() {
    let ladders = Ladders::default();
    for number in 0..CALLS_MAX + 10 {
        let call_id = format!("{number}@a");
        ladders.begin(
            &call_id,
            &call_id,
            &request("INVITE", &call_id, 0),
            socket(),
        );
    }
    assert_eq!(ladders.read("9@a"), None);
    assert!(ladders.read("10@a").is_some());
    for number in 0..BYTES_MAX / BYTES_OF_CALL_MAX + 10 {
        let call_id = format!("{number}@b");
        ladders.begin(
            &call_id,
            &call_id,
            &request("INVITE", &call_id, 0),
            socket(),
        );
        for _ in 0..40 {
            ladders.sent(&request("INFO", &call_id, 8_000), socket());
        }
    }
    let table = ladders.table();
    assert!(table.bytes <= BYTES_MAX, "{}", table.bytes);
    let held: usize = table.ladders.values().map(|ladder| ladder.bytes).sum();
    assert_eq!(table.bytes, held);
    assert_eq!(table.ladders.len(), table.by_id.len());
    assert_eq!(table.ladders.len(), table.by_call_id.len());
}
