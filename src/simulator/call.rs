//! One simulated call as a state machine. Pure: the caller supplies time, randomness and the socket.

use dikala_entities::{CallStatus, HangupInitiator, HangupReason};
use dikala_protocol::{
    CallReport, CommandKind, FunctionDeclaration, FunctionInvocation, MessageType, VoiceReport,
    client::ServiceReply,
};

use super::{arguments::sample_arguments, scenario::CallScript, transcripts::transcript};

/// An input of the state machine.
#[derive(Clone, Debug)]
pub enum Incident {
    Reply(ServiceReply),
    Command(CommandKind),
    /// The requested timer has expired.
    Wake,
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Hung up by the bridge.
    HungUp,
    /// The caller gave up while it rang.
    Abandoned,
    Refused(HangupReason),
    EndedByEngine,
    /// A message was answered with this error code.
    Failed(String),
}

/// An output of the state machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    Say(CallReport),
    WakeAfterMs(u64),
    Over(CallEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Calling,
    Ringing,
    Answering,
    /// The conversation's `half`, 1 or 2. Without a function there is only the second.
    Talking {
        half: u8,
    },
    Asking,
    Summing,
    Leaving(Outcomes),
}

/// Outcome of a call that is being hung up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcomes {
    HungUp,
    Abandoned,
}

#[derive(Clone, Debug)]
pub struct SimulatedCall {
    script: CallScript,
    invocation_id: String,
    stage: Stage,
    functions: Vec<FunctionDeclaration>,
    /// Name of the invoked function.
    asked: Option<String>,
    stopped: bool,
}

impl SimulatedCall {
    /// A call whose `call.incoming` is under way. It invokes at most one function, under this id.
    pub fn new(script: CallScript, invocation_id: String) -> Self {
        Self {
            script,
            invocation_id,
            stage: Stage::Calling,
            functions: Vec::new(),
            asked: None,
            stopped: false,
        }
    }

    /// Handles an input. Inputs that do not fit the current stage are ignored.
    pub fn on(&mut self, heard: Incident) -> Option<Reaction> {
        match heard {
            Incident::Reply(reply) => self.on_reply(reply),
            Incident::Wake => self.wake(),
            Incident::Command(CommandKind::Hangup { reason }) => {
                self.leave_unless_leaving(reason, HangupInitiator::Bridge)
            }
            // The caller was transferred to a person, so the bridge only waits.
            Incident::Command(CommandKind::Transfer { .. }) => {
                self.leave_unless_leaving(HangupReason::Transferred, HangupInitiator::Agent)
            }
            // A warning lets an agent say goodbye; this one has nothing to say.
            Incident::Command(CommandKind::Warn { .. }) => None,
            Incident::Stop => {
                self.stopped = true;
                self.leave_unless_leaving(HangupReason::Normal, HangupInitiator::Bridge)
            }
        }
    }

    fn on_reply(&mut self, reply: ServiceReply) -> Option<Reaction> {
        match reply {
            ServiceReply::Taken { agent, .. } if self.stage == Stage::Calling => {
                Some(self.taken(agent.functions))
            }
            ServiceReply::Refused { reason } if self.stage == Stage::Calling => {
                Some(Reaction::Over(CallEnd::Refused(reason)))
            }
            ServiceReply::Outcome { .. } => self.acknowledged(MessageType::Function),
            ServiceReply::Done(kind) => self.acknowledged(kind),
            ServiceReply::Declined {
                message,
                code,
                status,
                ..
            } => self.awaits(message.kind).then(|| {
                // A message that came after the call's end.
                let is_over = status.is_some_and(CallStatus::is_final);
                Reaction::Over(if is_over {
                    CallEnd::EndedByEngine
                } else {
                    CallEnd::Failed(code)
                })
            }),
            ServiceReply::Taken { .. } | ServiceReply::Refused { .. } => None,
        }
    }

    fn taken(&mut self, functions: Vec<FunctionDeclaration>) -> Reaction {
        if self.stopped {
            return self.leave(
                HangupReason::Normal,
                HangupInitiator::Bridge,
                Outcomes::HungUp,
            );
        }
        self.functions = functions;
        self.stage = Stage::Ringing;
        Reaction::WakeAfterMs(self.script.ring_ms)
    }

    fn wake(&mut self) -> Option<Reaction> {
        match self.stage {
            Stage::Ringing if self.script.abandons => Some(self.leave(
                HangupReason::Abandoned,
                HangupInitiator::Caller,
                Outcomes::Abandoned,
            )),
            Stage::Ringing => Some(self.say(Stage::Answering, CallReport::Answered)),
            Stage::Talking { half: 1 } => {
                let invocation = self.invocation();
                self.asked = Some(invocation.name.clone());
                Some(self.say(Stage::Asking, CallReport::Function(invocation)))
            }
            Stage::Talking { .. } => {
                let report = transcript(self.script.choice, self.asked.as_deref());
                Some(self.say(Stage::Summing, report))
            }
            Stage::Calling
            | Stage::Answering
            | Stage::Asking
            | Stage::Summing
            | Stage::Leaving(_) => None,
        }
    }

    fn acknowledged(&mut self, kind: MessageType) -> Option<Reaction> {
        match (self.stage, kind) {
            (Stage::Answering, MessageType::Answered)
                if self.script.asks && !self.functions.is_empty() =>
            {
                self.stage = Stage::Talking { half: 1 };
                Some(Reaction::WakeAfterMs(self.script.talk_ms / 2))
            }
            (Stage::Answering, MessageType::Answered) => {
                self.stage = Stage::Talking { half: 2 };
                Some(Reaction::WakeAfterMs(self.script.talk_ms))
            }
            (Stage::Asking, MessageType::Function) => {
                self.stage = Stage::Talking { half: 2 };
                Some(Reaction::WakeAfterMs(self.script.talk_ms.div_ceil(2)))
            }
            (Stage::Summing, MessageType::Transcript) => {
                let initiator = if self.script.agent_ends {
                    HangupInitiator::Agent
                } else {
                    HangupInitiator::Caller
                };
                Some(self.leave(HangupReason::Normal, initiator, Outcomes::HungUp))
            }
            (Stage::Leaving(Outcomes::HungUp), MessageType::Hangup) => {
                Some(Reaction::Over(CallEnd::HungUp))
            }
            (Stage::Leaving(Outcomes::Abandoned), MessageType::Hangup) => {
                Some(Reaction::Over(CallEnd::Abandoned))
            }
            _ => None,
        }
    }

    /// True if the call waits for the reply to a message of this kind.
    fn awaits(&self, kind: MessageType) -> bool {
        let awaited = match self.stage {
            Stage::Calling => MessageType::Incoming,
            Stage::Answering => MessageType::Answered,
            Stage::Asking => MessageType::Function,
            Stage::Summing => MessageType::Transcript,
            Stage::Leaving(_) => MessageType::Hangup,
            Stage::Ringing | Stage::Talking { .. } => return false,
        };
        awaited == kind
    }

    fn invocation(&self) -> FunctionInvocation {
        let function = &self.functions[self.script.choice % self.functions.len()];
        FunctionInvocation {
            invocation_id: self.invocation_id.clone(),
            name: function.name.clone(),
            parameters: sample_arguments(&function.parameters),
            trace: None,
        }
    }

    fn leave_unless_leaving(
        &mut self,
        reason: HangupReason,
        initiator: HangupInitiator,
    ) -> Option<Reaction> {
        match self.stage {
            // A call cannot be hung up before it has an id.
            Stage::Calling | Stage::Leaving(_) => None,
            _ => Some(self.leave(reason, initiator, Outcomes::HungUp)),
        }
    }

    fn leave(
        &mut self,
        reason: HangupReason,
        initiator: HangupInitiator,
        outcome: Outcomes,
    ) -> Reaction {
        let report = CallReport::Hangup {
            reason,
            initiator,
            ai_cost_idr: None,
            voice: VoiceReport::default(),
        };
        self.say(Stage::Leaving(outcome), report)
    }

    fn say(&mut self, stage: Stage, report: CallReport) -> Reaction {
        self.stage = stage;
        Reaction::Say(report)
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{CallId, Millis};
    use dikala_protocol::{CalleeNames, ErrorCode, InvocationOutcome, client::MessageRef};
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    const SCRIPT: CallScript = CallScript {
        ring_ms: 100,
        talk_ms: 1_000,
        abandons: false,
        asks: false,
        agent_ends: false,
        choice: 0,
    };

    fn taken() -> Incident {
        let reply = json!({
            "id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": null, "greetingText": null, "language": "id",
            "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": [], "functions": [{
                "name": "checkOrder", "description": "",
                "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
            }],
        });
        Incident::Reply(ServiceReply::Taken {
            call: CallId::new(Millis::from_i64(1)),
            did: "+622150001000".parse().expect("a number"),
            agent: serde_json::from_value(reply).expect("an agent"),
            callee: CalleeNames::default(),
        })
    }

    fn acknowledged(kind: MessageType) -> Incident {
        Incident::Reply(match kind {
            MessageType::Function => ServiceReply::Outcome {
                invocation_id: "i".to_owned(),
                outcome: InvocationOutcome::Ok { result: Map::new() },
            },
            kind => ServiceReply::Done(kind),
        })
    }

    fn declined(kind: MessageType, code: ErrorCode, status: Option<CallStatus>) -> Incident {
        let invocation_id = None;
        Incident::Reply(ServiceReply::Declined {
            message: MessageRef {
                kind,
                did: None,
                invocation_id,
            },
            code: code.as_str().to_owned(),
            words: String::new(),
            status,
        })
    }

    fn too_late(kind: MessageType) -> Incident {
        declined(kind, ErrorCode::InvalidTransition, Some(CallStatus::Ended))
    }

    fn hang_up(reason: HangupReason) -> Incident {
        Incident::Command(CommandKind::Hangup { reason })
    }

    fn transfer() -> Incident {
        let to = "+622150001000".parse().expect("a number");
        Incident::Command(CommandKind::Transfer { to })
    }

    /// Feeds inputs to a call and names the reaction to each.
    fn life(script: CallScript, heard: Vec<Incident>) -> Vec<String> {
        let mut call = SimulatedCall::new(script, "i".to_owned());
        let name = |effect: Option<Reaction>| match effect {
            None => "-".to_owned(),
            Some(Reaction::Say(CallReport::Hangup {
                reason, initiator, ..
            })) => format!("hangup {reason} {initiator}"),
            Some(Reaction::Say(CallReport::Function(function))) => {
                format!("{} {}", function.name, json!(function.parameters))
            }
            Some(Reaction::Say(report)) => format!("{:?}", report.kind()),
            Some(Reaction::WakeAfterMs(ms)) => format!("{ms} ms"),
            Some(Reaction::Over(outcome)) => format!("{outcome:?}"),
        };
        heard
            .into_iter()
            .map(|heard| name(call.on(heard)))
            .collect()
    }

    #[test]
    fn a_call_goes_by_its_script() {
        use Incident::Wake;
        let whole = vec![
            taken(),
            Wake,
            acknowledged(MessageType::Answered),
            Wake,
            acknowledged(MessageType::Transcript),
            acknowledged(MessageType::Hangup),
        ];
        let seen = life(SCRIPT, whole.clone());
        assert_eq!(
            seen,
            [
                "100 ms",
                "Answered",
                "1000 ms",
                "Transcript",
                "hangup normal caller",
                "HungUp"
            ]
        );

        let mut asking = whole;
        asking.splice(3..3, [Wake, acknowledged(MessageType::Function)]);
        let script = CallScript {
            asks: true,
            agent_ends: true,
            ..SCRIPT
        };
        let seen = life(script, asking);
        assert_eq!(
            seen,
            [
                "100 ms",
                "Answered",
                "500 ms",
                "checkOrder {\"n\":1}",
                "500 ms",
                "Transcript",
                "hangup normal agent",
                "HungUp"
            ]
        );

        let script = CallScript {
            abandons: true,
            ..SCRIPT
        };
        let seen = life(
            script,
            vec![taken(), Wake, acknowledged(MessageType::Hangup)],
        );
        assert_eq!(seen, ["100 ms", "hangup abandoned caller", "Abandoned"]);
    }

    #[test]
    fn the_engine_can_refuse_end_and_transfer() {
        use Incident::Wake;
        let refused = life(
            SCRIPT,
            vec![Incident::Reply(ServiceReply::Refused {
                reason: HangupReason::NoAgent,
            })],
        );
        assert_eq!(refused, ["Refused(NoAgent)"]);
        let cut = vec![
            taken(),
            Wake,
            acknowledged(MessageType::Answered),
            hang_up(HangupReason::MaxDuration),
            hang_up(HangupReason::MaxDuration),
            Wake,
            acknowledged(MessageType::Hangup),
        ];
        assert_eq!(
            life(SCRIPT, cut)[3..],
            ["hangup max_duration bridge", "-", "-", "HungUp"]
        );
        let moved = vec![
            taken(),
            Wake,
            acknowledged(MessageType::Answered),
            transfer(),
        ];
        assert_eq!(life(SCRIPT, moved)[3], "hangup transferred agent");
        let late = vec![
            taken(),
            Wake,
            too_late(MessageType::Transcript),
            too_late(MessageType::Answered),
        ];
        assert_eq!(life(SCRIPT, late)[2..], ["-", "EndedByEngine"]);
        let error = declined(MessageType::Incoming, ErrorCode::UnknownNumber, None);
        assert_eq!(life(SCRIPT, vec![error]), ["Failed(\"unknown_number\")"]);
    }

    #[test]
    fn a_stop_hangs_up_as_soon_as_the_call_has_an_id() {
        let seen = life(
            SCRIPT,
            vec![Incident::Stop, taken(), acknowledged(MessageType::Hangup)],
        );
        assert_eq!(seen, ["-", "hangup normal bridge", "HungUp"]);
    }

    fn anything() -> impl Strategy<Value = Incident> {
        let kind = prop::sample::select(MessageType::ALL.to_vec());
        prop_oneof![
            Just(taken()),
            kind.clone().prop_map(acknowledged),
            kind.prop_map(too_late),
            Just(Incident::Wake),
            Just(hang_up(HangupReason::CreditsExhausted)),
            Just(transfer()),
            Just(Incident::Stop),
        ]
    }

    proptest! {
        #[test]
        fn whatever_it_hears_it_hangs_up_once_and_says_nothing_after(heard in prop::collection::vec(anything(), 0..40), asks: bool, abandons: bool) {
            let mut call = SimulatedCall::new(CallScript { asks, abandons, ..SCRIPT }, "i".to_owned());
            let mut hung_up = false;
            for heard in heard {
                let effect = call.on(heard);
                prop_assert!(!hung_up || !matches!(effect, Some(Reaction::Say(_) | Reaction::WakeAfterMs(_))));
                hung_up |= matches!(effect, Some(Reaction::Say(CallReport::Hangup { .. })));
                if matches!(effect, Some(Reaction::Over(_))) {
                    break;
                }
            }
        }
    }
}
