//! The signs that the other side is still there.

use super::*;

#[test]
fn no_media_for_15_seconds_is_told_once_and_never_on_hold() {
    let lost = |stream: &mut MediaStream, from: u64, to: u64| {
        let ticks = (from..to).step_by(20).flat_map(|now| tick(stream, now).1);
        ticks
            .filter(|heard| *heard == StreamEvent::MediaLost)
            .count()
    };
    let mut ours = stream(terms(Codec::Pcma, THERE), 5);
    assert_eq!(lost(&mut ours, 0, LOST_MS), 0);
    assert_eq!(lost(&mut ours, LOST_MS, 3 * LOST_MS), 1);
    give(&mut ours, &packet(1, 8, &[0x2a; 160]), 3 * LOST_MS);
    assert_eq!(lost(&mut ours, 3 * LOST_MS, 4 * LOST_MS), 0);
    assert_eq!(lost(&mut ours, 4 * LOST_MS, 5 * LOST_MS), 1);
    for direction in [
        MediaDirection::RecvOnly,
        MediaDirection::Inactive,
        MediaDirection::SendOnly,
    ] {
        let mut held = terms(Codec::Pcma, THERE);
        held.direction = direction;
        ours.change(held, address(THERE).ip(), 5 * LOST_MS)
            .expect("changed");
        assert_eq!(
            lost(&mut ours, 5 * LOST_MS, 8 * LOST_MS),
            0,
            "{direction:?}"
        );
    }
    ours.change(terms(Codec::Pcma, THERE), address(THERE).ip(), 8 * LOST_MS)
        .expect("changed");
    assert_eq!(
        lost(&mut ours, 8 * LOST_MS, 9 * LOST_MS),
        0,
        "time to come back"
    );
    assert_eq!(lost(&mut ours, 9 * LOST_MS, 10 * LOST_MS), 1);
}

/// The address from which the phone reports, by its SDP.
fn report_address() -> SocketAddr {
    terms(Codec::Pcma, THERE).remote_rtcp
}

/// Behind NAT the reports of a known source come from any port.
#[test]
fn reports_with_the_ssrc_of_the_media_are_signs_of_life() {
    for (is_heard, expected) in [(true, 0), (false, 1)] {
        let (mut theirs, mut ours) = pair(Codec::Pcma, false);
        let (mut lost, mut first) = (0, is_heard);
        for now in (0..=LOST_MS).step_by(20) {
            for (channel, packet) in tick(&mut theirs, now).0 {
                let from = SocketAddr::new(report_address().ip(), 61_000);
                let from = match channel {
                    Channel::Rtp if !std::mem::take(&mut first) => continue,
                    Channel::Rtp => address(THERE),
                    Channel::Rtcp => from,
                };
                ours.on_packet(&packet, from, channel, now, &mut Vec::new());
            }
            let heard = tick(&mut ours, now).1;
            lost += usize::from(heard.contains(&StreamEvent::MediaLost));
        }
        assert_eq!(lost, expected, "is heard: {is_heard}");
    }
}

/// Gateways that suppress silence send only reports while the caller listens.
#[test]
fn reports_are_signs_of_life() {
    for crypto in [false, true] {
        let (mut theirs, mut ours) = pair(Codec::Pcma, crypto);
        let mut lost_at = Vec::new();
        for now in (0..5 * LOST_MS).step_by(20) {
            let sent = tick(&mut theirs, now).0;
            let reports = sent.iter().filter(|(channel, _)| *channel == Channel::Rtcp);
            for (channel, report) in reports.filter(|_| now < 3 * LOST_MS) {
                ours.on_packet(report, report_address(), *channel, now, &mut Vec::new());
            }
            let heard = tick(&mut ours, now).1;
            lost_at.extend(heard.contains(&StreamEvent::MediaLost).then_some(now));
        }
        assert_eq!(lost_at.len(), 1);
        assert!(lost_at[0] >= 4 * LOST_MS - 5_000, "{lost_at:?}");
    }
}

#[test]
fn rubbish_and_the_reports_of_strangers_are_none() {
    let (mut theirs, mut ours) = pair(Codec::Pcma, false);
    let mut lost = 0;
    for now in (0..=LOST_MS).step_by(20) {
        for (channel, packet) in tick(&mut theirs, now).0 {
            if channel == Channel::Rtcp {
                // Anybody can forge the address, but has to guess the port or the SSRC.
                let guess = SocketAddr::new(report_address().ip(), 66);
                for stranger in [address("203.0.113.66:66"), guess] {
                    ours.on_packet(&packet, stranger, channel, now, &mut Vec::new());
                }
                let cut = &packet[..packet.len() - 2];
                ours.on_packet(cut, report_address(), channel, now, &mut Vec::new());
            }
        }
        let heard = tick(&mut ours, now).1;
        lost += heard
            .iter()
            .filter(|it| **it == StreamEvent::MediaLost)
            .count();
    }
    assert_eq!(lost, 1);
}
