//! DTMF keys as RFC 4733 events.
//!
//! A key counts with the first received packet of its event, so that no lost packet hides it. Later packets of the event are
//! recognised by its timestamp. A key that this side sends lasts 100 ms, and its end is sent three times.

use std::collections::VecDeque;

/// Events softer than this (in −dBm0) are ignored (section 2.3.5).
const VOLUME_MAX: u8 = 55;
/// The largest duration of a segment; a longer event continues in another segment. A packet of this much before the last event is
/// late; one of longer before is from a sender that counts anew, as some do after a hold.
const SEGMENT: u32 = 0xffff;

/// The last event received.
#[derive(Debug, Default)]
pub struct KeyReceiver {
    last: Option<Event>,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    code: u8,
    timestamp: u32,
    ended: bool,
}

impl KeyReceiver {
    /// The key, if this packet begins one.
    pub fn hear(&mut self, timestamp: u32, payload: &[u8]) -> Option<char> {
        let [code, flags, ..] = *payload.first_chunk::<4>()?;
        let (ended, volume) = (flags & 0x80 != 0, flags & 0x3f);
        let key = key(code)?;
        if volume > VOLUME_MAX {
            return None;
        }
        let event = Event {
            code,
            timestamp,
            ended,
        };
        let Some(last) = self.last else {
            self.last = Some(event);
            return Some(key);
        };
        let after = timestamp.wrapping_sub(last.timestamp);
        if after.wrapping_neg() <= SEGMENT && after != 0 {
            return None;
        }
        let goes_on = after == 0 || (after == SEGMENT && !last.ended && code == last.code);
        let ended = if after == 0 {
            last.ended || ended
        } else {
            ended
        };
        self.last = Some(Event { ended, ..event });
        (!goes_on).then_some(key)
    }
}

const KEYS: &str = "0123456789*#ABCD";

fn key(code: u8) -> Option<char> {
    KEYS.chars().nth(usize::from(code))
}

/// Length of a sent key, and of the pause after it, in frames of 20 ms.
const PRESSED_FRAMES: u32 = 5;
const PAUSE_FRAMES: u32 = 3;
/// Packets that repeat the end of an event.
const ENDS: usize = 3;
/// Keys that wait to be sent; further ones are dropped.
const WAITING_MAX: usize = 32;
const VOLUME: u8 = 10;

/// Keys that are sent to the other side.
#[derive(Debug, Default)]
pub struct KeySender {
    waiting: VecDeque<u8>,
    /// The current key, the timestamp of its beginning, and its frames so far.
    now: Option<(u8, u32, u32)>,
    /// Frames until the next key may begin.
    pause: u32,
}

/// The event packet of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPacket {
    /// The event's timestamp, the same in all its packets.
    pub timestamp: u32,
    pub begins: bool,
    pub payload: [u8; 4],
    /// The number of times that the packet is sent.
    pub times: usize,
}

impl KeySender {
    pub fn press(&mut self, key: char) {
        let code = KEYS.chars().position(|held| held == key);
        let code = code.and_then(|code| u8::try_from(code).ok());
        if self.waiting.len() < WAITING_MAX {
            self.waiting.extend(code);
        }
    }

    /// The event packet that replaces this frame's audio, if a key is pressed. `clock`: ticks per second of durations.
    pub fn frame(&mut self, timestamp: u32, clock: u32) -> Option<KeyPacket> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let next = || Some((self.waiting.pop_front()?, timestamp, 0));
        let (code, begun, before) = self.now.take().or_else(next)?;
        let frames = before + 1;
        let ended = frames >= PRESSED_FRAMES;
        if ended {
            self.pause = PAUSE_FRAMES;
        } else {
            self.now = Some((code, begun, frames));
        }
        let [.., high, low] = (frames * (clock / 50)).to_be_bytes();
        Some(KeyPacket {
            timestamp: begun,
            begins: frames == 1,
            payload: [code, u8::from(ended) << 7 | VOLUME, high, low],
            times: if ended { ENDS } else { 1 },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{KeyReceiver, KeySender};

    fn packet(code: u8, ended: bool, duration: u16) -> [u8; 4] {
        let [high, low] = duration.to_be_bytes();
        [code, u8::from(ended) << 7 | 10, high, low]
    }

    /// The dialling of "911" in section 5 of RFC 4733, with the ends sent three times.
    #[test]
    fn nine_one_one_is_heard_once_each() {
        let mut keys = KeyReceiver::default();
        let mut heard = String::new();
        for (code, timestamp, durations) in [
            (9, 0, [400, 800, 1_200, 1_600]),
            (1, 6_400, [400, 800, 1_200, 1_600]),
            (1, 12_000, [400, 800, 1_200, 1_600]),
        ] {
            for duration in durations {
                heard.extend(keys.hear(timestamp, &packet(code, false, duration)));
            }
            for _ in 0..3 {
                heard.extend(keys.hear(timestamp, &packet(code, true, 1_700)));
            }
        }
        assert_eq!(heard, "911");
    }

    #[test]
    fn one_packet_of_an_event_is_enough() {
        for (code, key) in (0..).zip("0123456789*#ABCD".chars()) {
            for ended in [false, true] {
                assert_eq!(
                    KeyReceiver::default().hear(5, &packet(code, ended, 400)),
                    Some(key)
                );
            }
        }
        let mut keys = KeyReceiver::default();
        assert_eq!(keys.hear(100, &packet(5, false, 160)), Some('5'));
        assert_eq!(
            keys.hear(900, &packet(5, false, 160)),
            Some('5'),
            "the end between was lost"
        );
    }

    #[test]
    fn what_is_pressed_here_is_heard_there_once_each() {
        for clock in [8_000, 48_000] {
            let (mut presses, mut keys) = (KeySender::default(), KeyReceiver::default());
            for key in "55#x0123456789*ABCD".chars() {
                presses.press(key);
            }
            let (mut heard, mut ends) = (String::new(), 0);
            for frame in 0..200 {
                let Some(told) = presses.frame(frame * (clock / 50), clock) else {
                    continue;
                };
                for _ in 0..told.times {
                    heard.extend(keys.hear(told.timestamp, &told.payload));
                }
                if told.times == 3 {
                    ends += 1;
                    let duration =
                        u32::from(u16::from_be_bytes([told.payload[2], told.payload[3]]));
                    assert_eq!(duration, clock / 10, "100 ms");
                }
            }
            assert_eq!((heard.as_str(), ends), ("55#0123456789*ABCD", 18));
        }
    }

    #[test]
    fn keys_that_wait_are_bounded() {
        let mut presses = KeySender::default();
        for _ in 0..1_000 {
            presses.press('1');
        }
        let told = (0..10_000).filter_map(|at| presses.frame(at * 160, 8_000));
        assert_eq!(told.filter(|told| told.begins).count(), 32);
    }

    #[test]
    fn a_key_held_for_long_is_one_key() {
        let mut keys = KeyReceiver::default();
        let start = u32::MAX - 1_000;
        assert_eq!(keys.hear(start, &packet(3, false, 0xffff)), Some('3'));
        assert_eq!(
            keys.hear(start.wrapping_add(0xffff), &packet(3, false, 160)),
            None
        );
        assert_eq!(
            keys.hear(start.wrapping_add(0xffff), &packet(3, true, 160)),
            None
        );
        assert_eq!(keys.hear(start, &packet(3, true, 160)), None, "late");
    }

    #[test]
    fn keys_of_a_sender_that_counts_anew_are_heard() {
        let mut keys = KeyReceiver::default();
        let heard = [1_000_000, 200_000, 4_000_000_000, 100].map(|timestamp| {
            let pressed = keys.hear(timestamp, &packet(3, false, 160));
            assert_eq!(keys.hear(timestamp, &packet(3, true, 320)), None);
            pressed
        });
        assert_eq!(heard, [Some('3'); 4]);
    }

    #[test]
    fn other_events_and_whispers_are_no_keys() {
        let mut keys = KeyReceiver::default();
        assert_eq!(keys.hear(0, &packet(16, true, 160)), None, "flash");
        assert_eq!(keys.hear(0, &[1, 56, 0, 160]), None, "too soft");
        assert_eq!(keys.hear(0, &[1, 10, 0]), None, "too short");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_or_nothing(packets in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..8)), 0..50)) {
            let mut keys = KeyReceiver::default();
            for (timestamp, payload) in packets {
                if let Some(key) = keys.hear(timestamp, &payload) {
                    prop_assert!("0123456789*#ABCD".contains(key));
                }
            }
        }
    }
}
