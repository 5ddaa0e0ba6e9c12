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
pub(super) struct SecretKeys(Vec<Vec<u8>>);

impl SecretKeys {
    pub(super) fn add(&mut self, keys: &str) {
        let digits: Vec<u8> = keys.bytes().filter(u8::is_ascii_digit).collect();
        if digits.len() >= SECRET_DIGITS_MIN
            && self.0.len() < SEQUENCES_MAX
            && !self.0.contains(&digits)
        {
            self.0.push(digits);
        }
    }

    /// The text with `•` for each digit of a sequence, also where it is written `4 3 2 1`, `4, 3, 2, 1` or `4-3-2-1`.
    pub(super) fn masked(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let written = WrittenDigits::of(text);
        let mut is_secret = vec![false; written.digits.len()];
        for first in 0..written.digits.len() {
            let has = |secret: &&Vec<u8>| written.has(secret, first);
            if let Some(secret) = self.0.iter().find(has) {
                is_secret[first..first + secret.len()].fill(true);
            }
        }
        let mut secret = is_secret.into_iter();
        let shown = text.chars().map(|letter| {
            let is_hidden = letter.is_ascii_digit() && secret.next() == Some(true);
            if is_hidden { '•' } else { letter }
        });
        shown.collect()
    }
}

/// The digits of a text. Looking for many sequences costs little for each digit.
struct WrittenDigits {
    digits: Vec<u8>,
    /// For each digit, where it stands, in bytes.
    places: Vec<usize>,
    /// For each digit, the end of the digits that belong together with it.
    ends: Vec<usize>,
}

impl WrittenDigits {
    fn of(text: &str) -> Self {
        let all = text.bytes().enumerate();
        let (places, digits): (Vec<usize>, Vec<u8>) =
            all.filter(|(_, byte)| byte.is_ascii_digit()).unzip();
        let mut ends = vec![digits.len(); digits.len()];
        for at in (1..digits.len()).rev() {
            let between = text.get(places[at - 1] + 1..places[at]);
            let is_together = matches!(between, Some("" | " " | "-" | ", "));
            ends[at - 1] = if is_together { ends[at] } else { at };
        }
        Self {
            digits,
            places,
            ends,
        }
    }

    /// A number that begins with this digit is exactly the sequence.
    fn has(&self, secret: &[u8], first: usize) -> bool {
        let end = first + secret.len();
        let is_cut = |at: usize| {
            at == 0 || at >= self.places.len() || self.places[at] > self.places[at - 1] + 1
        };
        self.digits.get(first..end) == Some(secret)
            && end <= self.ends[first]
            && is_cut(first)
            && is_cut(end)
    }
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
