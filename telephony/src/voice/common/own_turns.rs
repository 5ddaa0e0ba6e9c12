//! The caller's turns as the phone's side detects them, for servers that do not. It knows what is echo.

use std::time::Duration;

use dikala_sip::leg::{CALLER_RATE, VOICE_HANG_OVER_MS};

/// A turn is over after 500 ms of silence, of which [`VOICE_HANG_OVER_MS`] have passed when the end of the voice is told.
pub(in crate::voice) const PAUSE_OF_TURN: Duration =
    Duration::from_millis(500 - VOICE_HANG_OVER_MS);
/// A voice of less than 300 ms does not interrupt. It is noticed after up to 96 ms, and its end after [`VOICE_HANG_OVER_MS`].
pub(in crate::voice) const INTERRUPTS_AFTER: Duration =
    Duration::from_millis(200 + VOICE_HANG_OVER_MS);
/// With less of the agent's speech ahead, a voice that does not interrupt may be an answer to it.
pub(in crate::voice) const NEAR_END: Duration = Duration::from_secs(1);
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

    /// The caller's voice has begun and not ended.
    pub(in crate::voice) fn is_speaking(&self) -> bool {
        self.is_speaking
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
