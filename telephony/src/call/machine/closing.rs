//! The end of a call: waits for the last usage figures and for the model's summary, then reports the hang-up to the service.

use dikala_entities::{HangupInitiator, HangupReason, Millis};
use dikala_protocol::CallReport;
use dikala_sip::leg::{HangupNote, Order};

use super::{CallMachine, End, MachineEffect, Now, Phase, VoiceState};
use crate::voice::VoiceInput;

/// Time limits for the voice to begin a summary and to finish it.
const SUMMARY_BEGINS_MS: u64 = 1_000;
const SUMMARY_MS: u64 = 3_000;
/// A model reports the usage of a turn after its last word.
const LAST_USAGE_MS: u64 = 300;

/// A call that has ended, except for the summary and the usage that the voice may still report.
#[derive(Debug)]
pub(super) struct Closing {
    end: CallReport,
    at: Millis,
    /// When the end is reported to the service.
    pub(super) until: u64,
    /// The later value of `until` that holds once the voice has begun its summary.
    latest: u64,
    summary: Option<String>,
}

impl CallMachine {
    pub(super) fn end(&mut self, end: End, now: Now, out: &mut Vec<MachineEffect>) {
        let ending = HangupNote {
            words: end.words.to_owned(),
        };
        out.push(MachineEffect::Leg(Order::Hangup(ending)));
        self.end_without_leg(end, now, out);
    }

    /// Ends a call whose phone is gone or already has its hang-up order. Only voice and service remain.
    pub(super) fn end_without_leg(&mut self, end: End, now: Now, out: &mut Vec<MachineEffect>) {
        if let Some(keys) = self.keys.take() {
            self.transcribe_keys(&keys, now);
        }
        let was_answered = matches!(self.phase, Phase::Talking | Phase::Leaving(_));
        let is_there = self.voice == VoiceState::Ready;
        let sums_up = is_there && self.transcript.is_conversation();
        let wait = match self.rules.prices {
            _ if sums_up => SUMMARY_BEGINS_MS,
            Some(_) if is_there => LAST_USAGE_MS,
            _ => 0,
        };
        let closing = Closing {
            end: match self.rules.prices {
                Some(_) if was_answered => with_its_cost(end.message, out),
                _ => end.message,
            },
            at: now.at,
            until: self.in_time(now.ms + wait),
            latest: self.in_time(now.ms + SUMMARY_MS),
            summary: None,
        };
        if closing.until <= now.ms {
            return self.tell(closing, out);
        }
        if sums_up {
            out.push(MachineEffect::Voice(VoiceInput::Summarise));
        }
        self.phase = Phase::Closing(Box::new(closing));
    }

    /// Caps a deadline at the time by which the bridge stops.
    pub(super) fn in_time(&self, until: u64) -> u64 {
        self.stops_at.map_or(until, |stops_at| stops_at.min(until))
    }

    /// The voice has begun its summary.
    pub(super) fn summarising(&mut self) {
        if let Phase::Closing(closing) = &mut self.phase
            && closing.summary.is_none()
        {
            closing.until = closing.latest;
        }
    }

    /// The voice has finished its summary. The usage of the summary itself may follow.
    pub(super) fn summed_up(&mut self, summary: String, now: Now, out: &mut Vec<MachineEffect>) {
        let last = self.in_time(now.ms + LAST_USAGE_MS);
        let Phase::Closing(closing) = &mut self.phase else {
            return;
        };
        closing.summary = Some(summary);
        closing.until = last;
        if self.rules.prices.is_none() {
            self.close(out);
        }
    }

    /// Stops waiting for the voice.
    pub(super) fn close(&mut self, out: &mut Vec<MachineEffect>) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Closing(closing) => self.tell(*closing, out),
            phase => self.phase = phase,
        }
    }

    /// Reports the end and the transcript to the service.
    fn tell(&mut self, closing: Closing, out: &mut Vec<MachineEffect>) {
        self.phase = Phase::Over;
        let Closing {
            mut end,
            at,
            summary,
            ..
        } = closing;
        if let CallReport::Hangup { ai_cost_idr, .. } = &mut end {
            *ai_cost_idr = self.meter.idr(self.rules.prices);
        }
        out.push(MachineEffect::Service(end, at));
        let transcript = self.transcript.close(summary);
        out.extend(transcript.map(|message| MachineEffect::Service(message, at)));
    }
}

/// Turns a fault into a hang-up, because only that message can carry the model's cost. `AiError` always stays a failure.
fn with_its_cost(end: CallReport, out: &mut Vec<MachineEffect>) -> CallReport {
    match end {
        CallReport::Failed { reason, detail } if reason != HangupReason::AiError => {
            out.push(MachineEffect::Fault(detail.unwrap_or_default()));
            CallReport::Hangup {
                reason,
                initiator: HangupInitiator::Bridge,
                ai_cost_idr: None,
            }
        }
        end => end,
    }
}
