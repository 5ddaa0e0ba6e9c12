//! The sender of a stream, among strangers.

use std::net::SocketAddr;

use super::{
    Latch,
    PacketProof::{Follows, None, Signed},
};

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A call whose SDP names an address behind NAT, its sender's real address, and a stranger's.
fn latch() -> (Latch, SocketAddr, SocketAddr, SocketAddr) {
    let sdp_media = address("10.0.0.5:4000");
    let nat = address("203.0.113.5:61000");
    (
        Latch::new(sdp_media, address("10.0.0.5:4001"), nat.ip(), true, 0),
        sdp_media,
        nat,
        address("198.51.100.66:9"),
    )
}

/// Two packets in a row.
fn twice(latch: &mut Latch, from: SocketAddr, now_ms: u64) -> bool {
    latch.admits(from, 1, None, now_ms);
    latch.admits(from, 2, None, now_ms)
}

#[test]
fn the_sender_is_whoever_sends_twice_in_a_row() {
    let (mut latch, sdp_media, nat, stranger) = latch();
    assert_eq!(latch.media(), sdp_media);
    assert!(!latch.admits(nat, 65_535, None, 0));
    assert_eq!(latch.media(), sdp_media);
    assert!(latch.admits(nat, 0, None, 0));
    assert_eq!(latch.media(), nat);
    for sequence in 0..20 {
        assert!(!latch.admits(stranger, sequence, None, 60_000));
    }
    assert_eq!(latch.media(), nat);
}

/// The phone is silent after a re-INVITE that names another port.
#[test]
fn another_port_in_the_sdp_lets_no_stranger_in() {
    let (mut latch, sdp_media, nat, stranger) = latch();
    let (next, reports) = (address("10.0.0.5:5000"), address("10.0.0.5:5001"));
    assert!(twice(&mut latch, nat, 0));
    latch.named(next, reports, 10_000);
    assert!(!twice(&mut latch, stranger, 20_000));
    assert!(twice(&mut latch, address("203.0.113.5:62000"), 20_000));
    // Without NAT the media goes to the new port at once.
    latch.named(sdp_media, reports, 30_000);
    assert!(latch.admits(sdp_media, 1, None, 30_000));
    latch.named(next, reports, 40_000);
    assert_eq!(latch.media(), next);
    assert!(!twice(&mut latch, stranger, 50_000));
}

/// The phone is silent after it has resumed the call.
#[test]
fn a_hold_by_zeros_gives_up_no_sender() {
    let (mut latch, sdp_media, nat, stranger) = latch();
    let reports = address("10.0.0.5:4001");
    assert!(twice(&mut latch, nat, 0));
    for resumed in [sdp_media, address("10.0.0.5:5000")] {
        latch.named(address("0.0.0.0:4000"), address("0.0.0.0:4001"), 10_000);
        assert_eq!(latch.media(), nat);
        assert!(!twice(&mut latch, stranger, 12_000));
        latch.named(resumed, reports, 20_000);
        assert_eq!(latch.media(), nat);
        assert!(!twice(&mut latch, stranger, 22_000));
    }
    assert!(latch.admits(nat, 3, None, 22_000));
}

#[test]
fn another_address_in_the_sdp_begins_anew() {
    let next = address("192.0.2.20:5000");
    let (_, _, nat, elsewhere) = latch();
    for (from, now_ms, is_admitted) in [
        (elsewhere, 10_999, false),
        (elsewhere, 11_000, true),
        (next, 10_000, true),
        (nat, 10_000, true),
    ] {
        let (mut latch, ..) = self::latch();
        assert!(twice(&mut latch, nat, 0));
        latch.named(next, address("192.0.2.20:5001"), 10_000);
        assert_eq!(latch.media(), next);
        assert_eq!(twice(&mut latch, from, now_ms), is_admitted, "{from}");
    }
}

#[test]
fn nobody_is_taken_for_a_phone_that_only_listens() {
    let (mut latch, sdp_media, nat, stranger) = latch();
    latch.direction_changed(false, 0);
    assert!(!twice(&mut latch, stranger, 60_000));
    assert!(twice(&mut latch, nat, 60_000));
    assert!(latch.admits(sdp_media, 1, None, 60_000));
}

/// A call that was held when it began.
#[test]
fn strangers_wait_for_a_second_after_a_listener_begins_to_send() {
    let (mut latch, _, nat, stranger) = latch();
    latch.direction_changed(false, 0);
    assert!(!twice(&mut latch, stranger, 10_000));
    latch.direction_changed(true, 10_000);
    assert!(!twice(&mut latch, stranger, 10_999));
    assert!(twice(&mut latch, nat, 10_999));
}

#[test]
fn strangers_have_no_chance_in_the_first_second() {
    let (mut latch, sdp_media, nat, stranger) = latch();
    for sequence in 0..50 {
        assert!(!latch.admits(stranger, sequence, None, 999));
    }
    assert_eq!(latch.media(), sdp_media);
    assert!(twice(&mut latch, nat, 999), "the caller is not kept out");
}

/// Some carriers send media from another address than their SDP and their signalling.
#[test]
fn after_the_first_second_any_address_may_be_the_sender() {
    let (mut latch, _, _, elsewhere) = latch();
    assert!(twice(&mut latch, elsewhere, 1_000));
    assert_eq!(latch.media(), elsewhere);
}

#[test]
fn the_signallings_address_wins_the_stream_back_from_a_stranger() {
    let (mut latch, _, nat, stranger) = latch();
    assert!(twice(&mut latch, stranger, 1_000));
    let his_reports = address("198.51.100.66:10");
    assert!(latch.admits_report(his_reports, Follows));
    for sequence in 3..40 {
        latch.admits(stranger, sequence, None, 1_500);
        latch.admits(nat, sequence, None, 1_500);
    }
    assert_eq!(latch.media(), nat);
    assert_ne!(latch.reports(), his_reports);
    assert!(!twice(&mut latch, stranger, 9_000), "and keeps it");
}

#[test]
fn one_packet_or_scattered_ones_do_not_take_a_call() {
    let (mut latch, sdp_media, _, stranger) = latch();
    for sequence in [7, 7, 100, 50, 2_000] {
        assert!(!latch.admits(stranger, sequence, None, 5_000));
    }
    assert_eq!(latch.media(), sdp_media);
}

#[test]
fn the_address_of_the_sdp_is_believed_at_once_and_always() {
    let (mut latch, sdp_media, nat, stranger) = latch();
    assert!(twice(&mut latch, stranger, 1_000));
    assert!(latch.admits(sdp_media, 500, None, 1_000));
    assert_eq!(latch.media(), sdp_media);
    assert!(!twice(&mut latch, stranger, 9_000));
    assert!(!twice(&mut latch, nat, 9_000), "it was named");
}

#[test]
fn a_stream_goes_on_from_another_port_and_only_signed_from_another_address() {
    let (mut latch, _, nat, elsewhere) = latch();
    assert!(twice(&mut latch, nat, 0));
    let moved = address("203.0.113.5:7");
    assert!(!latch.admits(moved, 3, Follows, 20));
    assert!(latch.admits(moved, 4, Follows, 40));
    assert_eq!(latch.media(), moved);
    for sequence in 5..20 {
        assert!(!latch.admits(elsewhere, sequence, Follows, 9_000));
    }
    assert!(!latch.admits(elsewhere, 20, Signed, 9_000));
    assert!(latch.admits(elsewhere, 21, Signed, 9_000));
}

#[test]
fn a_sender_takes_a_new_port_when_the_direction_changes_or_after_two_seconds() {
    let (mut latch, _, nat, stranger) = latch();
    assert!(twice(&mut latch, nat, 0));
    let [resumed, restarted] = ["203.0.113.5:7", "203.0.113.5:8"].map(address);
    assert!(!twice(&mut latch, resumed, 1_999), "a neighbour's, maybe");
    latch.direction_changed(true, 1_999);
    assert!(!twice(&mut latch, stranger, 1_999));
    assert!(twice(&mut latch, resumed, 1_999));
    assert!(!twice(&mut latch, nat, 1_999), "once for each change");
    assert!(!twice(&mut latch, restarted, 3_998));
    assert!(!twice(&mut latch, stranger, 3_999));
    assert!(twice(&mut latch, restarted, 3_999));
    assert_eq!(latch.media(), restarted);
}

#[test]
fn reports_come_from_where_media_comes() {
    let (mut latch, _, nat, stranger) = latch();
    // A listener behind NAT sends no media, only reports.
    assert!(!latch.admits_report(stranger, None));
    assert!(latch.admits_report(nat, None));
    assert_eq!(latch.reports(), nat);
    latch.reports = Option::None;
    assert!(twice(&mut latch, nat, 0));
    let beside = address("203.0.113.5:61077");
    for (from, proof) in [(stranger, None), (stranger, Follows), (beside, None)] {
        assert!(!latch.admits_report(from, proof), "{from}, {proof:?}");
        assert_eq!(latch.reports(), address("10.0.0.5:4001"));
    }
    let named = address("10.0.0.5:4001");
    for (from, proof) in [
        (named, None),
        (nat, None),
        (beside, Follows),
        (stranger, Signed),
    ] {
        assert!(latch.admits_report(from, proof), "{from}, {proof:?}");
        assert_eq!(latch.reports(), from);
    }
}
