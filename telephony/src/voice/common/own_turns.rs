//! The caller's turns as the phone's side detects them, for servers that do not. It knows what is echo.

use dikala_sip::leg::CALLER_RATE;

/// Audio from before the voice was noticed: 300 ms.
const BEFORE: usize = CALLER_RATE as usize * 3 / 10;

#[derive(Debug, Default)]
pub(in crate::voice) struct OwnTurns {
    /// The end of the silence before a turn, which the server does not get.
    before: Vec<i16>,
    is_speaking: bool,
}

impl OwnTurns {
    /// Adds 20 to 40 ms of the caller. Returns the audio that belongs to a turn.
    pub(in crate::voice) fn hear(&mut self, samples: &[i16]) -> Vec<i16> {
        self.before.extend_from_slice(samples);
        if self.is_speaking {
            return std::mem::take(&mut self.before);
        }
        let beyond = self.before.len().saturating_sub(BEFORE);
        self.before.drain(..beyond);
        Vec::new()
    }

    /// The caller's voice begins or ends. False if nothing changes.
    pub(in crate::voice) fn speaks(&mut self, speaks: bool) -> bool {
        std::mem::replace(&mut self.is_speaking, speaks) != speaks
    }
}

#[cfg(test)]
mod tests {
    use super::{BEFORE, OwnTurns};

    #[test]
    fn a_turn_has_its_beginning_and_silence_is_not_sent() {
        let mut turns = OwnTurns::default();
        for _ in 0..100 {
            assert!(turns.hear(&[0; 320]).is_empty());
        }
        assert!(turns.speaks(true) && !turns.speaks(true));
        assert_eq!(turns.hear(&[1; 320]).len(), BEFORE + 320);
        assert_eq!(turns.hear(&[1; 320]), [1; 320]);
        assert!(turns.speaks(false) && !turns.speaks(false));
        assert!(turns.hear(&[0; 320]).is_empty());
    }
}
