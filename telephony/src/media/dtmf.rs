//! Keys pressed, as RFC 4733 events.
//!
//! A key counts with the first packet of its event that comes, so that no lost packet, not even the end, hides it; what else
//! comes of the same event is known by its timestamp.

/// Softer than this (in −dBm0) is not a key (section 2.3.5).
const VOLUME_MAX: u8 = 55;
/// Where a duration ends and a long event goes on in another segment.
const SEGMENT: u32 = 0xffff;

/// What was heard of the last event.
#[derive(Debug, Default)]
pub struct Keys {
    last: Option<Event>,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    code: u8,
    timestamp: u32,
    ended: bool,
}

impl Keys {
    /// The key that this packet begins, if it does.
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
        if after >= 1 << 31 {
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

fn key(code: u8) -> Option<char> {
    "0123456789*#ABCD".chars().nth(usize::from(code))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Keys;

    fn packet(code: u8, ended: bool, duration: u16) -> [u8; 4] {
        let [high, low] = duration.to_be_bytes();
        [code, u8::from(ended) << 7 | 10, high, low]
    }

    /// The dialling of "911" in section 5 of RFC 4733, with the ends sent three times.
    #[test]
    fn nine_one_one_is_heard_once_each() {
        let mut keys = Keys::default();
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
                    Keys::default().hear(5, &packet(code, ended, 400)),
                    Some(key)
                );
            }
        }
        let mut keys = Keys::default();
        assert_eq!(keys.hear(100, &packet(5, false, 160)), Some('5'));
        assert_eq!(
            keys.hear(900, &packet(5, false, 160)),
            Some('5'),
            "the end between was lost"
        );
    }

    #[test]
    fn a_key_held_for_long_is_one_key() {
        let mut keys = Keys::default();
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
    fn other_events_and_whispers_are_no_keys() {
        let mut keys = Keys::default();
        assert_eq!(keys.hear(0, &packet(16, true, 160)), None, "flash");
        assert_eq!(keys.hear(0, &[1, 56, 0, 160]), None, "too soft");
        assert_eq!(keys.hear(0, &[1, 10, 0]), None, "too short");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_or_nothing(packets in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..8)), 0..50)) {
            let mut keys = Keys::default();
            for (timestamp, payload) in packets {
                if let Some(key) = keys.hear(timestamp, &payload) {
                    prop_assert!("0123456789*#ABCD".contains(key));
                }
            }
        }
    }
}
