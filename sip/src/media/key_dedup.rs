//! Removes doubles of keys that a phone sends both as RFC 4733 events and by INFO.

use std::collections::VecDeque;

/// Beyond this distance the same key was pressed again. A long press may be sent at its beginning in one way and at its end in
/// the other.
const APART_MS: u64 = 5_000;
/// Keys that wait for their double.
const WAITING_MAX: usize = 32;

/// The way in which a key was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    Media,
    Signalling,
}

#[derive(Debug)]
struct SentKey {
    key: char,
    way: KeySource,
    at_ms: u64,
}

#[derive(Debug, Default)]
pub struct KeyDeduplicator {
    waiting: VecDeque<SentKey>,
}

impl KeyDeduplicator {
    /// True unless the key already came the other way.
    pub fn is_new(&mut self, key: char, way: KeySource, now_ms: u64) -> bool {
        self.waiting
            .retain(|told| now_ms.saturating_sub(told.at_ms) <= APART_MS);
        let double = |told: &SentKey| told.key == key && told.way != way;
        if let Some(at) = self.waiting.iter().position(double) {
            self.waiting.remove(at);
            return false;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(SentKey {
            key,
            way,
            at_ms: now_ms,
        });
        true
    }
}

/// The key in the body of an INFO: a `Signal=5` line (`application/dtmf-relay`), or only the key (`application/dtmf`).
pub fn signalled(body: &[u8]) -> Option<char> {
    let text = std::str::from_utf8(body).ok()?;
    let named = text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case("signal").then_some(value)
    });
    let signal = match named {
        Some(signal) => signal.trim(),
        None if text.contains('=') => return None,
        None => text.trim(),
    };
    // Some phones send the event's number (RFC 4733, 3.2).
    let letter = match signal {
        "10" => '*',
        "11" => '#',
        one => one.parse::<char>().ok()?.to_ascii_uppercase(),
    };
    "0123456789*#ABCD".contains(letter).then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(told: &[(char, KeySource, u64)]) -> String {
        let mut dedup = KeyDeduplicator::default();
        let new = told
            .iter()
            .filter(|(key, way, at)| dedup.is_new(*key, *way, *at));
        new.map(|(key, ..)| *key).collect()
    }

    #[test]
    fn what_is_told_twice_counts_once() {
        use KeySource::{Media, Signalling};
        for (told, expected) in [
            (vec![('4', Media, 0), ('4', Signalling, 300)], "4"),
            (vec![('4', Signalling, 0), ('4', Media, 10)], "4"),
            (
                vec![
                    ('4', Media, 0),
                    ('4', Media, 200),
                    ('4', Signalling, 210),
                    ('4', Signalling, 220),
                ],
                "44",
            ),
            (
                vec![
                    ('4', Media, 0),
                    ('2', Signalling, 1),
                    ('4', Signalling, 2),
                    ('2', Media, 3),
                ],
                "42",
            ),
            // One way alone, and the other way too late.
            (vec![('4', Media, 0), ('4', Media, 100)], "44"),
            (vec![('4', Signalling, 0), ('4', Signalling, 100)], "44"),
            (vec![('4', Media, 0), ('4', Signalling, 6_000)], "44"),
        ] {
            assert_eq!(counted(&told), expected, "{told:?}");
        }
        let mut dedup = KeyDeduplicator::default();
        for at in 0..1_000 {
            dedup.is_new('1', Media, at);
        }
        assert_eq!(dedup.waiting.len(), WAITING_MAX);
    }

    #[test]
    fn bodies_of_info_are_read() {
        for (body, key) in [
            ("Signal=5\r\nDuration=160\r\n", Some('5')),
            ("signal = #", Some('#')),
            ("Duration=250\nSignal=10\n", Some('*')),
            ("Signal=11", Some('#')),
            ("7", Some('7')),
            ("*\r\n", Some('*')),
            ("d", Some('D')),
            ("Signal=16", None),
            ("Signal=", None),
            ("Duration=100", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(signalled(body.as_bytes()), key, "{body:?}");
        }
        assert_eq!(signalled(b"\xff"), None);
    }
}
