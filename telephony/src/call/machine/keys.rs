//! Keys pressed by the caller, collected until a pause or `#`.

/// The pause after a key that ends a sequence.
const PAUSE_MS: u64 = 1_500;
/// A longer sequence is split into several texts.
const KEYS_MAX: usize = 64;

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
    fn who_never_stops_pressing_is_told_in_parts() {
        let mut keys = KeyCollector::default();
        let told: Vec<String> = (0..130).filter_map(|at| keys.press('1', at)).collect();
        assert_eq!(told.len(), 2);
        assert_eq!(keys.take().as_deref(), Some("1 1"));
    }
}
