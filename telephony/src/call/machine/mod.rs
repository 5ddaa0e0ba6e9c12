//! The state machine of a call. Pure: an input and the time give effects, and the next deadline.
//!
//! Phases: the service decides, the voice opens, the call is answered, caller and agent talk, perhaps the caller is joined to a
//! person, the call is left. Every call reports its end to the service exactly once, and its transcript once: after the end, or when the agent has left.

mod circumstances;
mod closing;
mod failover;
mod functions;
mod guard;
mod guarding;
mod input;
mod joined;
mod keys;
mod leaving;
mod opening;
mod refusal;
mod speaking;
mod talking;
mod tools;
mod transcript;

use dikala_entities::{ConversationSettings, HangupInitiator, HangupReason};
use dikala_protocol::{
    CallAgent, CallReport, CommandKind, InvocationOutcome, MessageType, VoiceReport,
    client::{ServiceEvent, ServiceReply},
};
use dikala_sip::leg::{CallRefusal, LegEvent, Order};

pub(super) use self::input::{MachineEffect, MachineInput, Now};
pub(crate) use self::{
    circumstances::CallOrigin, guard::Stall, input::CallRules, refusal::unavailable,
};
use self::{
    closing::Closing,
    failover::{EndedAbsence, ProviderOrder, VoiceState},
    functions::FunctionCalls,
    guard::ConversationGuard,
    joined::{JoinedCall, left},
    keys::KeyCollector,
    leaving::Departure,
    opening::OpeningVoice,
    speaking::Speaking,
    transcript::TranscriptBuilder,
};
use crate::{cost::Meter, voice::VoiceEvent};

/// Time limits for the service's decision about a call, and for its absence meanwhile.
const DECISION_MS: u64 = 10_000;
const DECISION_AWAY_MS: u64 = 2_000;

#[derive(Debug)]
pub(super) struct CallMachine {
    rules: CallRules,
    phase: Phase,
    origin: CallOrigin,
    /// The service's id, empty until it is known.
    call_id: String,
    agent: Option<Box<CallAgent>>,
    /// Sentences for the agent about the call.
    circumstances: String,
    speaking: Speaking,
    providers: ProviderOrder,
    voice: VoiceState,
    last_absence: Option<EndedAbsence>,
    guard: ConversationGuard,
    keys: KeyCollector,
    functions: FunctionCalls,
    /// Transfers that the agent has asked for.
    transfers: u8,
    /// Goodbyes that the caller has spoken into.
    goodbyes: u8,
    /// Pauses in which the caller waited for the agent, and something had to be done.
    stalls: u32,
    /// Times that the caller cut the agent off.
    interruptions: u32,
    transcript: TranscriptBuilder,
    /// The voice's summary of the conversation.
    summary: Option<String>,
    meter: Meter,
    /// When the service went away; `None` while its socket is open.
    service_away_since: Option<u64>,
    is_held: bool,
    /// The time by which the call has to be over, once the bridge stops.
    stops_at: Option<u64>,
}

#[derive(Debug)]
enum Phase {
    /// The service decides.
    Asking {
        until: u64,
    },
    /// The phone rings while the voice session opens. Nothing is generated before the answer, so a forged call costs nothing.
    Opening(OpeningVoice),
    /// Waits for the phone's acknowledgement.
    Answering {
        until: u64,
        /// When a voice session that opened early is given up; `None` once that is done.
        voice_until: Option<u64>,
    },
    Talking,
    Leaving(Departure),
    Joined(Box<JoinedCall>),
    /// The call has ended; the voice may still send a summary.
    Closing(Box<Closing>),
    Over,
}

#[derive(Debug, Clone, PartialEq)]
struct End {
    message: CallReport,
    /// For the phone's Reason header.
    words: &'static str,
}

impl End {
    fn hangup(reason: HangupReason, initiator: HangupInitiator, words: &'static str) -> Self {
        Self {
            message: CallReport::Hangup {
                reason,
                initiator,
                ai_cost_idr: None,
                voice: VoiceReport::default(),
            },
            words,
        }
    }

    fn failed(reason: HangupReason, detail: impl AsRef<str>, words: &'static str) -> Self {
        Self {
            message: CallReport::failed(reason, detail.as_ref()),
            words,
        }
    }
}

impl CallMachine {
    /// Starts a call that has just come in.
    pub(super) fn new(
        rules: CallRules,
        origin: CallOrigin,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) -> Self {
        out.push(MachineEffect::Leg(Order::Ring));
        Self {
            rules,
            phase: Phase::Asking {
                until: now.ms + DECISION_MS,
            },
            origin,
            call_id: String::new(),
            agent: None,
            circumstances: String::new(),
            speaking: Speaking::default(),
            providers: ProviderOrder::default(),
            voice: VoiceState::None,
            last_absence: None,
            guard: ConversationGuard::new(ConversationSettings::default()),
            keys: KeyCollector::default(),
            functions: FunctionCalls::default(),
            transfers: 0,
            goodbyes: 0,
            stalls: 0,
            interruptions: 0,
            transcript: TranscriptBuilder::default(),
            summary: None,
            meter: Meter::default(),
            service_away_since: None,
            is_held: false,
            stops_at: None,
        }
    }

    /// Handles an input, then expired deadlines.
    pub(super) fn step(&mut self, now: Now, input: MachineInput, out: &mut Vec<MachineEffect>) {
        if self.is_over() {
            return;
        }
        match input {
            MachineInput::Leg(event) => self.on_leg(event, now, out),
            MachineInput::LegGone => self.on_leg(
                LegEvent::Failed("the phone's side is gone".to_owned()),
                now,
                out,
            ),
            MachineInput::Voice(heard) => self.on_voice(heard, now, out),
            MachineInput::VoiceGone => self.on_voice(
                VoiceEvent::Lost("the voice is gone without a word".to_owned()),
                now,
                out,
            ),
            MachineInput::Service(told) => self.on_service(told, now, out),
            MachineInput::ServiceStands(true) => self.service_away_since = None,
            MachineInput::ServiceStands(false) => self.service_away(now.ms),
            MachineInput::ServiceAway { since_ms } => self.service_away(since_ms),
            MachineInput::Stop { within_ms } => self.stop(within_ms, now, out),
            MachineInput::Time => {}
        }
        self.expire(now, out);
        if matches!(self.phase, Phase::Talking | Phase::Leaving(_)) {
            // The phone confirms what a flush cut off.
            let is_played = !self.speaking.is_speaking() && !self.speaking.is_flushing();
            let heard = self.transcript.heard_turns(is_played);
            let report = |turn| MachineEffect::Service(CallReport::Turn { turn }, now.at);
            out.extend(heard.into_iter().map(report));
        }
    }

    /// The next deadline.
    pub(super) fn due(&self) -> Option<u64> {
        let phase = match &self.phase {
            Phase::Asking { until } => {
                let away = self
                    .service_away_since
                    .map(|since| since + DECISION_AWAY_MS);
                Some(away.map_or(*until, |away| away.min(*until)))
            }
            Phase::Opening(opening) => Some(opening.until),
            Phase::Answering { until, voice_until } => Some(voice_until.unwrap_or(*until)),
            Phase::Closing(closing) => Some(closing.wait.until),
            Phase::Joined(joined) => self.joined_due(joined),
            Phase::Talking => {
                let lost = self.service_lost_at();
                let voice = self.voice_due();
                let guard = self.guard.due();
                let all = [lost, voice, guard, self.keys.due(), self.speaking.due()];
                all.into_iter().flatten().min()
            }
            Phase::Leaving(leaving) => Some(leaving.due()),
            Phase::Over => None,
        };
        phase.filter(|_| !self.is_over())
    }

    /// True if the voice is to be read now. It waits before the answer, and while speech is being flushed.
    pub(super) fn listens(&self) -> bool {
        let in_time = match &self.phase {
            Phase::Talking | Phase::Leaving(_) => !self.speaking.is_flushing(),
            // Nothing is played any more; a summary may come.
            Phase::Closing(_) | Phase::Joined(_) => true,
            // Only news of the connection can come.
            Phase::Opening(_) | Phase::Answering { .. } => true,
            Phase::Asking { .. } | Phase::Over => false,
        };
        in_time && self.voice != VoiceState::None
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn expire(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        match &self.phase {
            _ if self.due().is_none_or(|due| due > now.ms) => {}
            Phase::Asking { .. } => {
                let words = "The service cannot be reached at the moment.";
                let end = HangupReason::Rejected;
                self.reject(refusal::unavailable(words), Some(end), now, out);
            }
            Phase::Opening(_) => self.answer(now, out),
            Phase::Answering {
                until,
                voice_until: Some(_),
            } => {
                self.phase = Phase::Answering {
                    until: *until,
                    voice_until: None,
                };
                self.unacknowledged(out);
            }
            Phase::Answering { .. } => {
                let end = End::failed(
                    HangupReason::BridgeError,
                    "the phone did not acknowledge the answer",
                    "No acknowledgement came.",
                );
                self.end(end, now, out);
            }
            Phase::Talking => self.expire_talk(now, out),
            Phase::Leaving(_) => self.expire_leaving(now, out),
            Phase::Joined(_) => self.expire_joined(now, out),
            Phase::Closing(_) => self.close(out),
            Phase::Over => {}
        }
    }

    fn on_leg(&mut self, event: LegEvent, now: Now, out: &mut Vec<MachineEffect>) {
        match (&self.phase, event) {
            (Phase::Over | Phase::Closing(_), _) => {}
            (Phase::Answering { .. }, LegEvent::Answered) => self.answered(now, out),
            (_, LegEvent::Cancelled)
            | (Phase::Asking { .. } | Phase::Opening(_), LegEvent::HungUp) => {
                let given_up = End::hangup(
                    HangupReason::Abandoned,
                    HangupInitiator::Caller,
                    "The caller gave up.",
                );
                self.end_without_leg(given_up, now, out);
            }
            (Phase::Joined(_), LegEvent::HungUp) => {
                let end = left(HangupInitiator::Caller, "The caller hung up.");
                self.end_without_leg(end, now, out);
            }
            (_, LegEvent::Parted) => {
                let end = left(HangupInitiator::Bridge, "The person hung up.");
                self.end_without_leg(end, now, out);
            }
            (Phase::Talking | Phase::Leaving(_), LegEvent::Joined { to }) => {
                self.joined(&to, now, out);
            }
            (_, LegEvent::HungUp) => {
                let end = End::hangup(
                    HangupReason::Normal,
                    HangupInitiator::Caller,
                    "The caller hung up.",
                );
                self.end_without_leg(end, now, out);
            }
            (_, LegEvent::Failed(words)) => {
                let end = End::failed(HangupReason::BridgeError, words, "The call broke.");
                self.end_without_leg(end, now, out);
            }
            (_, LegEvent::MediaLost) => {
                let end = End::failed(
                    HangupReason::MediaLost,
                    "no media came for 15 s",
                    "No media came for 15 seconds.",
                );
                self.end(end, now, out);
            }
            (Phase::Talking | Phase::Leaving(_), event) => {
                self.on_media(event, now, out);
            }
            _ => {}
        }
    }

    fn on_service(&mut self, told: ServiceEvent, now: Now, out: &mut Vec<MachineEffect>) {
        let is_running = !matches!(self.phase, Phase::Closing(_) | Phase::Over);
        match told {
            _ if !is_running => {}
            ServiceEvent::Reply(reply, _) => self.on_reply(reply, now, out),
            ServiceEvent::Command(command) => self.on_command(command, now, out),
            ServiceEvent::Over => self.service_let_go(now, out),
        }
    }

    fn on_reply(&mut self, reply: ServiceReply, now: Now, out: &mut Vec<MachineEffect>) {
        match reply {
            ServiceReply::Taken {
                call,
                called,
                agent,
                callee,
            } => self.taken(call, &called, agent, &callee, now, out),
            ServiceReply::Refused { reason } => {
                self.reject(refusal::refused(reason), None, now, out);
            }
            ServiceReply::Outcome {
                invocation_id,
                outcome,
            } => self.function_done(&invocation_id, outcome, now, out),
            ServiceReply::Declined {
                message: declined,
                code,
                words: message,
                ..
            } => match declined.kind {
                MessageType::Incoming => self.reject(refusal::declined(&code), None, now, out),
                // An older service.
                MessageType::Turn if code == "unknown_type" => self.transcript.tell_no_turns(),
                MessageType::Function => {
                    let error = InvocationOutcome::Error { code, message };
                    let id = declined.invocation_id.unwrap_or_default();
                    self.function_done(&id, error, now, out);
                }
                MessageType::Answered => self.service_let_go(now, out),
                _ => {}
            },
            ServiceReply::Done(_) => {}
        }
    }

    /// The service considers the call over, so any further message about it would be a repeat.
    fn service_let_go(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let end = End::hangup(
            HangupReason::Normal,
            HangupInitiator::Bridge,
            "The service has ended the call.",
        );
        self.end(end, now, out);
    }

    /// The time at which calls do not wait for the service any longer.
    fn service_lost_at(&self) -> Option<u64> {
        let since = self.service_away_since?;
        Some(since + self.rules.service_lost_after_ms)
    }

    fn service_lost(&self) -> End {
        let seconds = self.rules.service_lost_after_ms / 1_000;
        End::failed(
            HangupReason::BridgeError,
            format!("the service was away for {seconds} s"),
            "The service cannot be reached.",
        )
    }

    fn service_away(&mut self, since_ms: u64) {
        self.service_away_since.get_or_insert(since_ms);
    }

    fn on_command(&mut self, command: CommandKind, now: Now, out: &mut Vec<MachineEffect>) {
        match command {
            CommandKind::Hangup { reason } => {
                let end = End::hangup(reason, HangupInitiator::Bridge, ended_because(reason));
                match self.phase {
                    Phase::Talking | Phase::Leaving(_) => self.leave_soon(end, now, out),
                    // That of the agent. The service learns of the joining, and takes it back.
                    Phase::Joined(_) if reason == HangupReason::MaxDuration => {}
                    Phase::Asking { .. } | Phase::Opening(_) => {
                        let refusal = refusal::refused(reason);
                        self.reject(refusal, Some(reason), now, out);
                    }
                    _ => self.end(end, now, out),
                }
            }
            CommandKind::Warn {
                reason,
                seconds_left,
            } => self.warn(reason, seconds_left, out),
            CommandKind::Transfer { to } => self.transfer(to.as_str().to_owned(), None, now, out),
        }
    }

    fn stop(&mut self, within_ms: u64, now: Now, out: &mut Vec<MachineEffect>) {
        self.stops_at = Some(now.ms.saturating_add(within_ms));
        let end = End::hangup(
            HangupReason::Normal,
            HangupInitiator::Bridge,
            "The service stops.",
        );
        match &self.phase {
            Phase::Asking { .. } | Phase::Opening(_) => {
                let refusal = refusal::unavailable("The service stops.");
                self.reject(refusal, Some(HangupReason::Rejected), now, out);
            }
            Phase::Talking => self.leave_with_a_sentence(end, now, out),
            Phase::Leaving(leaving) if leaving.is_for_a_person() => {
                self.leave_with_a_sentence(end, now, out);
            }
            // It ends by itself and soon enough.
            Phase::Leaving(_) => self.hurry(),
            Phase::Joined(_) => {
                let end = left(HangupInitiator::Bridge, "The service stops.");
                self.leave_joined(end, now, out);
            }
            Phase::Closing(_) | Phase::Over => {}
            Phase::Answering { .. } => self.end(end, now, out),
        }
    }

    /// Refuses the call. `told`: the reason to report when the service may believe that the phone rings.
    fn reject(
        &mut self,
        refusal: CallRefusal,
        told: Option<HangupReason>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        if !matches!(self.phase, Phase::Asking { .. } | Phase::Opening(_)) {
            return;
        }
        self.close_voice(out);
        out.push(MachineEffect::Leg(Order::Reject(refusal)));
        if let Some(reason) = told {
            let end = End::hangup(reason, HangupInitiator::Bridge, "");
            out.push(MachineEffect::Service(end.message, now.at));
        }
        self.phase = Phase::Over;
    }
}

/// Words for the phone's Reason header.
fn ended_because(reason: HangupReason) -> &'static str {
    match reason {
        HangupReason::MaxDuration => "The longest duration of a call is reached.",
        HangupReason::CreditsExhausted => "The credit is used up.",
        HangupReason::Transferred => "The caller was connected to a person.",
        _ => "The call was ended.",
    }
}

#[cfg(test)]
mod tests;
