//! The end of a call: waits for the last usage figures and for the model's summary, then reports the hang-up to the service.

use dikala_entities::{Millis, VoiceProvider};
use dikala_protocol::{CallReport, VoiceReport};
use dikala_sip::leg::{HangupNote, Order};

use super::{CallMachine, End, MachineEffect, Now, Phase, VoiceState};
use crate::{
    settings::Prices,
    voice::{Usage, VoiceInput},
};

/// Time limits for the voice to begin a summary and to finish it.
const SUMMARY_BEGINS_MS: u64 = 1_000;
const SUMMARY_MS: u64 = 3_000;
/// A model reports the usage of a turn after its last word.
const LAST_USAGE_MS: u64 = 300;

/// Unplayed speech that cuts the transcript. Less is the error of the estimate.
const UNPLAYED_MS: u64 = 300;

/// A call that has ended, except for the summary and the usage that the voice may still report.
#[derive(Debug)]
pub(super) struct Closing {
    end: CallReport,
    at: Millis,
    /// The end is reported to the service after it.
    pub(super) wait: SummaryWait,
}

/// How long the voice's summary is awaited.
#[derive(Debug)]
pub(super) struct SummaryWait {
    pub(super) until: u64,
    /// The later value of `until` that holds once the voice has begun its summary.
    latest: u64,
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
        let was_answered = matches!(
            self.phase,
            Phase::Talking | Phase::Leaving(_) | Phase::Joined(_)
        );
        let unplayed_ms = self.guard.unplayed_ms(now.ms);
        if was_answered && unplayed_ms > UNPLAYED_MS {
            let said_ms = self.speaking.said_ms();
            self.transcript
                .heard(said_ms.saturating_sub(unplayed_ms), said_ms);
        }
        let stops_at = self.stops_at.unwrap_or(u64::MAX);
        let wait = match &mut self.phase {
            Phase::Joined(joined) => joined.summary.take().map(|wait| SummaryWait {
                until: wait.until.min(stops_at),
                latest: wait.latest.min(stops_at),
            }),
            _ => self.ask_for_summary(now, out),
        };
        let (end, at) = (end.message, now.at);
        if let CallReport::Failed { detail, .. } = &end {
            out.push(MachineEffect::Fault(detail.clone().unwrap_or_default()));
        }
        match wait {
            Some(wait) => self.phase = Phase::Closing(Box::new(Closing { end, at, wait })),
            None => self.tell(end, at, out),
        }
    }

    /// Asks the voice for a summary, if there was a conversation. `None` if nothing is to be awaited: no summary, no usage.
    pub(super) fn ask_for_summary(
        &mut self,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) -> Option<SummaryWait> {
        let is_there = self.voice == VoiceState::Ready;
        let sums_up = is_there && self.transcript.is_conversation();
        let wait_ms = match is_there && self.is_priced() {
            _ if sums_up => SUMMARY_BEGINS_MS,
            true => LAST_USAGE_MS,
            false => 0,
        };
        let until = self.in_time(now.ms + wait_ms);
        if until <= now.ms {
            return None;
        }
        if sums_up {
            out.push(MachineEffect::Voice(VoiceInput::Summarise));
        }
        let latest = self.in_time(now.ms + SUMMARY_MS);
        Some(SummaryWait { until, latest })
    }

    /// Caps a deadline at the time by which the bridge stops.
    pub(super) fn in_time(&self, until: u64) -> u64 {
        self.stops_at.map_or(until, |stops_at| stops_at.min(until))
    }

    fn summary_wait(&mut self) -> Option<&mut SummaryWait> {
        match &mut self.phase {
            Phase::Closing(closing) => Some(&mut closing.wait),
            Phase::Joined(joined) => joined.summary.as_mut(),
            _ => None,
        }
    }

    /// The voice has begun its summary.
    pub(super) fn summarising(&mut self) {
        let has_none = self.summary.is_none();
        if let Some(wait) = self.summary_wait().filter(|_| has_none) {
            wait.until = wait.latest;
        }
    }

    /// The voice has finished its summary. The usage of the summary itself may follow.
    pub(super) fn summed_up(&mut self, summary: String, now: Now, out: &mut Vec<MachineEffect>) {
        let last = self.in_time(now.ms + LAST_USAGE_MS);
        let Some(wait) = self.summary_wait() else {
            return;
        };
        wait.until = last;
        self.summary = Some(summary);
        if self.is_priced() {
            return;
        }
        if let Phase::Joined(joined) = &mut self.phase {
            joined.summary = None;
            self.agent_has_left(now, out);
        }
        self.close(out);
    }

    /// Stops waiting for the voice, and reports the end.
    pub(super) fn close(&mut self, out: &mut Vec<MachineEffect>) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Closing(closing) => self.tell(closing.end, closing.at, out),
            phase => self.phase = phase,
        }
    }

    /// Reports the end and the transcript to the service.
    fn tell(&mut self, mut end: CallReport, at: Millis, out: &mut Vec<MachineEffect>) {
        self.phase = Phase::Over;
        let is_priced = self.is_priced();
        match &mut end {
            CallReport::Hangup {
                ai_cost_idr, voice, ..
            }
            | CallReport::Failed {
                ai_cost_idr, voice, ..
            } => {
                *ai_cost_idr = is_priced.then(|| self.meter.idr());
                *voice = self.voice_report();
            }
            _ => {}
        }
        out.push(MachineEffect::Service(end, at));
        let transcript = self.transcript.close(self.summary.take());
        out.extend(transcript.map(|message| MachineEffect::Service(message, at)));
    }
}

impl CallMachine {
    /// Adds what a voice of the call has used.
    pub fn add_usage(&mut self, provider: VoiceProvider, usage: Usage) {
        self.meter.add(usage, self.prices_of(provider));
    }

    fn prices_of(&self, provider: VoiceProvider) -> Option<Prices> {
        let mut voices = self.rules.voices.iter();
        voices.find(|(name, _)| *name == provider)?.1
    }

    fn prices(&self) -> Option<Prices> {
        self.prices_of(self.providers.current()?)
    }

    /// The call has a cost of its own, because a provider that it has used has prices.
    pub(super) fn is_priced(&self) -> bool {
        self.prices().is_some() || self.meter.idr() > 0
    }

    fn voice_report(&self) -> VoiceReport {
        VoiceReport {
            voice_provider: self.providers.current(),
            stalls: Some(self.stalls),
            interruptions: Some(self.interruptions),
        }
    }
}
