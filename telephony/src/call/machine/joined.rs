//! A caller who is joined to a person: the agent is gone, and the call goes on until a side leaves or it is ended from outside.

use dikala_entities::{HangupInitiator, HangupReason, Speaker};
use dikala_protocol::CallReport;
use dikala_sip::{
    leg::{Order, SPEECH_RATE},
    warning_tone,
};
use serde_json::json;

use super::{CallMachine, End, MachineEffect, Now, Phase, closing::SummaryWait, functions::answer};
use crate::voice::{Phrase, ToolOutcome};

/// Time for the way of an announcement to the phones, after its length.
const ON_THE_WAY_MS: u64 = 500;

#[derive(Debug)]
pub(super) struct JoinedCall {
    /// `None` once the voice session is closed.
    pub(super) summary: Option<SummaryWait>,
    /// The end of the call and its time, while both hear an announcement of it.
    ending: Option<(u64, End)>,
}

impl CallMachine {
    /// A person has answered. A call that is about to end ends all the same.
    pub(super) fn joined(&mut self, to: &str, now: Now, out: &mut Vec<MachineEffect>) {
        let tool = match &mut self.phase {
            Phase::Talking => None,
            Phase::Leaving(leaving) if leaving.is_for_a_person() => leaving.take_tool(),
            _ => return,
        };
        if let Some(id) = tool {
            let connected = json!({"connected": true});
            answer(id, ToolOutcome::success(connected), out);
        }
        if let Ok(number) = to.parse() {
            let joined = CallReport::Transferred {
                to: number,
                ai_cost_idr: self.is_priced().then(|| self.meter.idr()),
            };
            out.push(MachineEffect::Service(joined, now.at));
        }
        self.transcribe_transfer(to, now);
        self.phase = Phase::Joined(Box::new(JoinedCall {
            summary: self.ask_for_summary(now, out),
            ending: None,
        }));
        self.agent_has_left(now, out);
    }

    /// Has the transcript say to which number the caller was connected.
    pub(super) fn transcribe_transfer(&mut self, to: &str, now: Now) {
        let words = format!("connected to {to}");
        self.transcript.whole(Speaker::Tool, &words, now.at);
    }

    /// Closes the voice session and reports the transcript, unless a summary is still awaited.
    pub(super) fn agent_has_left(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        if matches!(&self.phase, Phase::Joined(joined) if joined.summary.is_none()) {
            self.close_voice(out);
            if let Some(keys) = self.keys.take() {
                self.transcribe_keys(&keys, now);
            }
            let transcript = self.transcript.close(self.summary.take());
            out.extend(transcript.map(|message| MachineEffect::Service(message, now.at)));
        }
    }

    /// Both hear a sentence of the bridge; then the call ends.
    pub(super) fn leave_joined(&mut self, end: End, now: Now, out: &mut Vec<MachineEffect>) {
        let language = self.agent.as_ref().map_or("", |agent| &agent.language);
        let (_, samples) = Phrase::Sorry.spoken(language);
        let length_ms = samples.len() as u64 * 1_000 / u64::from(SPEECH_RATE);
        let until = self.in_time(now.ms + length_ms + ON_THE_WAY_MS);
        let Phase::Joined(joined) = &mut self.phase else {
            return;
        };
        if let Some((before, _)) = &mut joined.ending {
            *before = until.min(*before);
            return;
        }
        out.push(MachineEffect::Leg(Order::Announce(samples)));
        joined.ending = Some((until, end));
    }

    pub(super) fn joined_due(&self, joined: &JoinedCall) -> Option<u64> {
        let summary = joined.summary.as_ref().map(|wait| wait.until);
        let end = match &joined.ending {
            Some((until, _)) => Some(*until),
            None => self.service_lost_at(),
        };
        [summary, end].into_iter().flatten().min()
    }

    pub(super) fn expire_joined(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let lost_at = self.service_lost_at();
        let Phase::Joined(joined) = &mut self.phase else {
            return;
        };
        joined.summary.take_if(|wait| wait.until <= now.ms);
        let ended = joined.ending.take_if(|(until, _)| *until <= now.ms);
        let is_lost = joined.ending.is_none() && lost_at.is_some_and(|at| at <= now.ms);
        self.agent_has_left(now, out);
        match ended {
            Some((_, end)) => self.end(end, now, out),
            None if is_lost => self.leave_joined(self.service_lost(), now, out),
            None => {}
        }
    }

    /// Both hear a tone before the service cuts the call.
    pub(super) fn warn_joined(&self, out: &mut Vec<MachineEffect>) {
        out.push(MachineEffect::Leg(Order::Announce(warning_tone())));
    }
}

/// The end of a joined call.
pub(super) fn left(initiator: HangupInitiator, words: &'static str) -> End {
    End::hangup(HangupReason::Transferred, initiator, words)
}
