//! The caller as the agent hears it. Models detect voices themselves, and would take the agent's own speech that the line returns
//! for the caller's.

use super::{
    activity::{Activity, VoiceChange},
    echo::EchoGuard,
};

/// Audio that is kept while nobody knows whether it is the caller's: 600 ms at 16 kHz.
const WITHHELD: usize = 16 * 600;

/// The caller's voice in one call, and what may be an echo.
#[derive(Debug, Default)]
pub struct CallerVoice {
    activity: Activity,
    /// The end of what the agent did not hear, as the caller may have begun in it.
    withheld: Vec<i16>,
}

/// The meaning of a frame of 20 ms for the agent.
#[derive(Debug)]
pub struct HeardFrame {
    /// Audio from before this frame that was the caller's after all.
    pub released: Vec<i16>,
    /// The agent hears silence in place of the frame.
    pub is_hidden: bool,
    pub change: Option<VoiceChange>,
}

impl CallerVoice {
    /// Adds a frame. `at_ms`: when it would have come without jitter; `None` for silence that was filled in, which is no echo.
    pub fn hear(&mut self, frame: &[i16], echo: &mut EchoGuard, at_ms: Option<u64>) -> HeardFrame {
        let is_echo = at_ms.is_some_and(|at_ms| echo.heard(frame, at_ms));
        let change = self.activity.hear(frame, is_echo);
        let is_doubtful = !self.activity.is_speaking() && echo.is_learning();
        let released = match change {
            Some(VoiceChange::Started) => std::mem::take(&mut self.withheld),
            _ => Vec::new(),
        };
        if is_doubtful {
            self.withheld.extend_from_slice(frame);
            let beyond = self.withheld.len().saturating_sub(WITHHELD);
            self.withheld.drain(..beyond);
        } else {
            // Its memory is not needed for the rest of the call.
            self.withheld = Vec::new();
        }
        let is_known = is_echo && echo.is_measured() && !self.activity.is_speaking();
        HeardFrame {
            released,
            is_hidden: is_doubtful || is_known,
            change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 320;

    /// A second of somebody who speaks, at 16 kHz.
    fn speech() -> Vec<i16> {
        use crate::media::g711::Law;
        let mut narrow = Vec::new();
        Law::A.decode(include_bytes!("activity/speech.al"), &mut narrow);
        let wide = narrow.iter().flat_map(|sample| [*sample; 2]);
        wide.take(50 * FRAME).collect()
    }

    /// The agent says `agent`, and `line` comes in. Returns what the agent hears of it, and whether a voice was noticed.
    fn hears(agent: &[i16], line: &[i16]) -> (Vec<i16>, bool) {
        let (mut echo, mut voice) = (EchoGuard::default(), CallerVoice::default());
        let (mut heard, mut is_noticed) = (Vec::new(), false);
        for (n, frame) in line.chunks_exact(FRAME).enumerate() {
            let at_ms = n as u64 * 20;
            let said = agent.get(n * FRAME..(n + 1) * FRAME);
            echo.sent(said.unwrap_or(&[0; FRAME]), at_ms);
            let frame_heard = voice.hear(frame, &mut echo, Some(at_ms));
            heard.extend(frame_heard.released);
            heard.extend(match frame_heard.is_hidden {
                true => &[0; FRAME],
                false => frame,
            });
            is_noticed |= frame_heard.change.is_some();
        }
        (heard, is_noticed)
    }

    fn contains(heard: &[i16], words: &[i16]) -> bool {
        heard.windows(words.len()).any(|part| part == words)
    }

    #[test]
    fn an_echo_is_not_heard_before_it_is_measured() {
        let agent = speech();
        let mut line = vec![0; 100 * 16];
        line.extend(agent.iter().map(|sample| sample / 4));
        line.truncate(agent.len());
        let (heard, is_noticed) = hears(&agent, &line);
        assert!(!is_noticed);
        assert!(heard.iter().all(|sample| *sample == 0));
    }

    #[test]
    fn the_first_word_of_a_caller_is_heard_whole_on_a_line_without_echo() {
        let words = speech();
        let mut line = vec![0; 600 * 16];
        line.extend(&words);
        // The agent says something else: the same backwards.
        let agent: Vec<i16> = words
            .iter()
            .rev()
            .copied()
            .cycle()
            .take(line.len())
            .collect();
        let (heard, is_noticed) = hears(&agent, &line);
        assert!(is_noticed);
        assert!(contains(&heard, &words[..40 * FRAME]));
    }

    #[test]
    fn a_line_without_echo_is_trusted_after_a_while() {
        let agent: Vec<i16> = speech().repeat(4);
        // Too soft to be a voice.
        let line: Vec<i16> = (0..agent.len()).map(|n| (n % 7) as i16).collect();
        let (heard, is_noticed) = hears(&agent, &line);
        assert!(!is_noticed);
        assert!(heard[..140 * FRAME].iter().all(|sample| *sample == 0));
        assert_eq!(heard[160 * FRAME..], line[160 * FRAME..]);
    }
}
