//! Keys pressed by the caller, collected until a pause or `#`.

/// The pause after a key that ends a sequence.
const PAUSE_MS: u64 = 1_500;
/// A longer sequence is split into several texts.
const KEYS_MAX: usize = 64;

/// Shorter sequences are choices in a menu, whose digits are in many words about something else.
const SECRET_DIGITS_MIN: usize = 3;
/// Sequences of a call that are kept for masking.
const SEQUENCES_MAX: usize = 100;

/// The digits that a caller pressed and that nobody is shown, sequence by sequence.
#[derive(Debug, Default)]
pub(super) struct SecretKeys(Vec<Vec<char>>);

impl SecretKeys {
    pub(super) fn add(&mut self, keys: &str) {
        let digits: Vec<char> = keys.chars().filter(char::is_ascii_digit).collect();
        if digits.len() >= SECRET_DIGITS_MIN
            && self.0.len() < SEQUENCES_MAX
            && !self.0.contains(&digits)
        {
            self.0.push(digits);
        }
    }

    /// The text with `•` for each digit of a sequence, also where it is written `4 3 2 1`, `4, 3, 2, 1` or `4-3-2-1`.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        for at in 0..letters.len() {
            let found = self
                .0
                .iter()
                .find_map(|digits| end_of(&letters, at, digits));
            for letter in &mut letters[at..found.unwrap_or(at)] {
                if letter.is_ascii_digit() {
                    *letter = '•';
                }
            }
        }
        letters.into_iter().collect()
    }
}

/// The end of these digits, if a number that begins at `from` is exactly them.
fn end_of(letters: &[char], from: usize, digits: &[char]) -> Option<usize> {
    let is_digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
    if from > 0 && is_digit(from - 1) {
        return None;
    }
    let mut at = from;
    for digit in digits {
        if at > from {
            at += match letters.get(at..) {
                Some([',', ' ', ..]) => 2,
                Some([' ' | '-', ..]) => 1,
                _ => 0,
            };
        }
        if letters.get(at) != Some(digit) {
            return None;
        }
        at += 1;
    }
    (!is_digit(at)).then_some(at)
}

#[derive(Debug, Default)]
pub(super) struct KeyCollector {
    pressed: Vec<char>,
    due: Option<u64>,
}

impl KeyCollector {
    /// Adds a key and returns the sequence once it is complete.
    pub(super) fn press(&mut self, key: char, now_ms: u64) -> Option<String> {
        self.pressed.push(key);
        self.due = Some(now_ms + PAUSE_MS);
        (key == '#' || self.pressed.len() >= KEYS_MAX).then(|| self.take())?
    }

    /// Returns the sequence if the pause after its last key is over.
    pub(super) fn expire(&mut self, now_ms: u64) -> Option<String> {
        let is_due = self.due.is_some_and(|due| due <= now_ms);
        is_due.then(|| self.take())?
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.due
    }

    /// Takes the keys pressed so far: `4 2 7 #`.
    pub(super) fn take(&mut self) -> Option<String> {
        self.due = None;
        let keys: Vec<String> = self.pressed.drain(..).map(String::from).collect();
        (!keys.is_empty()).then(|| keys.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_at_a_pause_or_a_hash() {
        let mut keys = KeyCollector::default();
        for (key, at) in [('4', 0), ('2', 1_000), ('7', 2_400)] {
            assert_eq!(keys.press(key, at), None);
        }
        assert_eq!(keys.expire(3_899), None);
        assert_eq!(keys.expire(3_900).as_deref(), Some("4 2 7"));
        assert_eq!((keys.expire(9_000), keys.due()), (None, None));
        assert_eq!(keys.press('9', 10_000), None);
        assert_eq!(keys.press('#', 10_100).as_deref(), Some("9 #"));
        assert_eq!(keys.take(), None);
    }

    #[test]
    fn secret_keys_are_masked_wherever_they_are_written() {
        let mut secret = SecretKeys::default();
        for keys in ["4 3 2 1 #", "1", "9 9 9 9 9 9"] {
            secret.add(keys);
        }
        for (text, masked) in [
            ("The PIN is 4321.", "The PIN is ••••."),
            (
                "4 3 2 1, 4-3-2-1; 4, 3, 2, 1 and 999999",
                "• • • •, •-•-•-•; •, •, •, • and ••••••",
            ),
            (
                "Room 1, 14321, 43210, 432 and Rp 4.321",
                "Room 1, 14321, 43210, 432 and Rp 4.321",
            ),
            ("", ""),
        ] {
            assert_eq!(secret.masked(text), masked);
        }
    }

    #[test]
    fn who_never_stops_pressing_is_told_in_parts() {
        let mut keys = KeyCollector::default();
        let told: Vec<String> = (0..130).filter_map(|at| keys.press('1', at)).collect();
        assert_eq!(told.len(), 2);
        assert_eq!(keys.take().as_deref(), Some("1 1"));
    }
}
