//! The units that a model bills, up to a plausible limit.

use std::time::Duration;

use crate::voice::Usage;

/// Each turn bills the whole conversation so far again. Models remember some 130,000 tokens, and a turn takes seconds.
const IN_AT_ONCE: u64 = 1_000_000;
const IN_PER_SECOND: u64 = 50_000;
/// Speech is 25 tokens a second. Interrupted speech was generated faster than it is played, and thoughts count, too.
const OUT_AT_ONCE: u64 = 100_000;
const OUT_PER_SECOND: u64 = 1_000;
/// Transcribed audio beyond the time of the session: of a caller who is held back, and rounded up turn by turn.
const MS_AT_ONCE: u64 = 60_000;
const MS_PER_SECOND: u64 = 2_000;

/// The accepted units of a session.
#[derive(Debug, Default)]
pub(in crate::voice) struct Bill {
    tokens_in: u64,
    tokens_out: u64,
    milliseconds: u64,
    was_absurd: bool,
}

pub(in crate::voice) enum BillDecision {
    Believed(Usage),
    /// A sum beyond what a session of this length can use.
    Absurd {
        is_first: bool,
    },
}

impl Bill {
    /// Adds what a message bills, `lasted` after the beginning of the session.
    pub(in crate::voice) fn add(&mut self, usage: Usage, lasted: Duration) -> BillDecision {
        let seconds = lasted.as_secs();
        let most = |at_once: u64, per_second: u64| {
            at_once.saturating_add(per_second.saturating_mul(seconds))
        };
        let sum =
            |so_far: u64, text: u64, audio: u64| so_far.saturating_add(text).saturating_add(audio);
        let tokens_in = sum(self.tokens_in, usage.text_in, usage.audio_in);
        let tokens_in = tokens_in.saturating_add(usage.cached_in);
        let tokens_out = sum(self.tokens_out, usage.text_out, usage.audio_out);
        let milliseconds = self.milliseconds.saturating_add(usage.milliseconds);
        if tokens_in > most(IN_AT_ONCE, IN_PER_SECOND)
            || tokens_out > most(OUT_AT_ONCE, OUT_PER_SECOND)
            || milliseconds > most(MS_AT_ONCE, MS_PER_SECOND)
        {
            let is_first = !std::mem::replace(&mut self.was_absurd, true);
            return BillDecision::Absurd { is_first };
        }
        (self.tokens_in, self.tokens_out) = (tokens_in, tokens_out);
        self.milliseconds = milliseconds;
        BillDecision::Believed(usage)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bill, BillDecision};
    use crate::voice::Usage;

    #[test]
    fn what_a_call_cannot_have_used_is_not_counted() {
        let mut bill = Bill::default();
        let turn = Usage {
            text_in: 2_000,
            audio_in: 128_000,
            text_out: 500,
            audio_out: 250,
            ..Usage::default()
        };
        // An hour of turns of three seconds, each with the longest possible context.
        for seconds in (0..3_600).step_by(3) {
            let added = bill.add(turn, Duration::from_secs(seconds));
            assert!(
                matches!(added, BillDecision::Believed(it) if it == turn),
                "{seconds} s"
            );
        }
        let absurd = |of: fn(&mut Usage) -> &mut u64| {
            let mut usage = Usage::default();
            *of(&mut usage) = u64::MAX;
            usage
        };
        for (at, usage) in [
            absurd(|it| &mut it.text_in),
            absurd(|it| &mut it.audio_in),
            absurd(|it| &mut it.text_out),
            absurd(|it| &mut it.audio_out),
            absurd(|it| &mut it.milliseconds),
        ]
        .into_iter()
        .enumerate()
        {
            let added = bill.add(usage, Duration::from_secs(3_600));
            assert!(matches!(added, BillDecision::Absurd { is_first } if is_first == (at == 0)));
        }
        let added = bill.add(turn, Duration::from_secs(3_600));
        assert!(
            matches!(added, BillDecision::Believed(_)),
            "what follows counts"
        );
    }

    #[test]
    fn many_bills_that_each_could_be_are_bounded_by_the_calls_time() {
        let mut bill = Bill::default();
        let usage = Usage {
            audio_in: 100_000,
            audio_out: 1_000,
            ..Usage::default()
        };
        let mut believed = 0_u64;
        for _ in 0..100_000 {
            if let BillDecision::Believed(_) = bill.add(usage, Duration::from_secs(60)) {
                believed += 1;
            }
        }
        assert_eq!(believed, 40, "1,000,000 and 50,000 for each of 60 seconds");
    }
}
