//! The caller's turns as this side detects them, for servers that do not.

use dikala_sip::{Activity, VoiceChange, leg::CALLER_RATE};

/// Audio from before the voice was noticed: 300 ms.
const BEFORE: usize = CALLER_RATE as usize * 3 / 10;

#[derive(Debug, Default)]
pub(super) struct OwnTurns {
    activity: Activity,
    /// The end of the silence before a turn, which the server does not get.
    before: Vec<i16>,
    is_speaking: bool,
}

/// The part of the caller's audio that belongs to a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TurnAudio {
    pub change: Option<VoiceChange>,
    pub samples: Vec<i16>,
}

impl OwnTurns {
    /// Adds 20 to 40 ms of the caller.
    pub(super) fn hear(&mut self, samples: &[i16]) -> TurnAudio {
        let change = self.activity.hear(samples, false);
        let was_speaking = self.is_speaking;
        match change {
            Some(VoiceChange::Started) => self.is_speaking = true,
            Some(VoiceChange::Ended) => self.is_speaking = false,
            None => {}
        }
        self.before.extend_from_slice(samples);
        if was_speaking || self.is_speaking {
            let samples = std::mem::take(&mut self.before);
            return TurnAudio { change, samples };
        }
        let beyond = self.before.len().saturating_sub(BEFORE);
        self.before.drain(..beyond);
        TurnAudio {
            change,
            samples: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BEFORE, OwnTurns, VoiceChange};
    use crate::voice::Phrase;

    #[test]
    fn a_turn_has_its_beginning_and_silence_is_not_sent() {
        let mut turns = OwnTurns::default();
        let silence = vec![0; 320];
        for _ in 0..100 {
            assert_eq!(turns.hear(&silence).samples.len(), 0);
        }
        // At 24 kHz taken as 16: a slow voice, but a voice.
        let (_, spoken) = Phrase::Wait.spoken("id");
        let mut sent = Vec::new();
        let mut changes = Vec::new();
        for piece in spoken.chunks(320).chain(vec![&silence[..]; 50]) {
            let turn = turns.hear(piece);
            if sent.is_empty() && !turn.samples.is_empty() {
                assert!(turn.samples.len() >= BEFORE, "{}", turn.samples.len());
            }
            sent.extend(turn.samples);
            changes.extend(turn.change);
        }
        assert_eq!(changes.first(), Some(&VoiceChange::Started));
        assert_eq!(changes.last(), Some(&VoiceChange::Ended));
        assert!(sent.len() > 8_000 && sent.len() < spoken.len() + 16_000);
    }
}
