//! One simulated call as a state machine. Pure: the caller supplies time, randomness and the socket.

use dikala_entities::{HangupInitiator, HangupReason};
use serde_json::{Map, Value};

use super::{arguments::sample_arguments, scenario::CallScript};

/// The kind of a message; needed to interpret its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    Incoming,
    Answered,
    Function,
    Transcript,
    HangUp,
}

/// An input of the state machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Incident {
    /// `call.incoming` was accepted; holds the agent's functions.
    Taken {
        functions: Vec<Value>,
    },
    Rejected {
        reason: String,
    },
    Acknowledged(MessageKind),
    /// A message of this kind came after the call's end.
    TooLate(MessageKind),
    Error {
        to: MessageKind,
        code: String,
    },
    /// The requested timer has expired.
    Wake,
    /// The service asks to hang up.
    HangUpCommand(HangupReason),
    /// The caller was transferred to a person, so the bridge only waits.
    TransferCommand,
    Stop,
}

/// A message of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    Answered,
    Ask {
        name: String,
        parameters: Map<String, Value>,
    },
    Transcript {
        topic: usize,
        /// Name of the invoked function.
        asked: Option<String>,
    },
    HangUp {
        reason: HangupReason,
        initiator: HangupInitiator,
    },
}

impl Say {
    pub fn kind(&self) -> MessageKind {
        match self {
            Self::Answered => MessageKind::Answered,
            Self::Ask { .. } => MessageKind::Function,
            Self::Transcript { .. } => MessageKind::Transcript,
            Self::HangUp { .. } => MessageKind::HangUp,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Hung up by the bridge.
    HungUp,
    /// The caller gave up while it rang.
    Abandoned,
    Refused(String),
    EndedByEngine,
    /// A message was answered with this error code.
    Failed(String),
}

/// An output of the state machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    Say(Say),
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
    stage: Stage,
    functions: Vec<Value>,
    asked: Option<String>,
    stopped: bool,
}

impl SimulatedCall {
    /// A call whose `call.incoming` is under way.
    pub fn new(script: CallScript) -> Self {
        Self {
            script,
            stage: Stage::Calling,
            functions: Vec::new(),
            asked: None,
            stopped: false,
        }
    }

    /// Handles an input. Inputs that do not fit the current stage are ignored.
    pub fn on(&mut self, heard: Incident) -> Option<Reaction> {
        match heard {
            Incident::Taken { functions } if self.stage == Stage::Calling => {
                Some(self.taken(functions))
            }
            Incident::Rejected { reason } if self.stage == Stage::Calling => {
                Some(Reaction::Over(CallEnd::Refused(reason)))
            }
            Incident::Acknowledged(kind) => self.acknowledged(kind),
            Incident::TooLate(kind) => self
                .awaits(kind)
                .then_some(Reaction::Over(CallEnd::EndedByEngine)),
            Incident::Error { to, code } => self
                .awaits(to)
                .then_some(Reaction::Over(CallEnd::Failed(code))),
            Incident::Wake => self.wake(),
            Incident::HangUpCommand(reason) => {
                self.leave_unless_leaving(reason, HangupInitiator::Bridge)
            }
            Incident::TransferCommand => {
                self.leave_unless_leaving(HangupReason::Transferred, HangupInitiator::Agent)
            }
            Incident::Stop => {
                self.stopped = true;
                self.leave_unless_leaving(HangupReason::Normal, HangupInitiator::Bridge)
            }
            Incident::Taken { .. } | Incident::Rejected { .. } => None,
        }
    }

    fn taken(&mut self, functions: Vec<Value>) -> Reaction {
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
            Stage::Ringing => Some(self.say(Stage::Answering, Say::Answered)),
            Stage::Talking { half: 1 } => {
                let (name, ask) = self.ask();
                self.asked = Some(name);
                Some(self.say(Stage::Asking, ask))
            }
            Stage::Talking { .. } => {
                let topic = self.script.choice;
                let asked = self.asked.clone();
                Some(self.say(Stage::Summing, Say::Transcript { topic, asked }))
            }
            Stage::Calling
            | Stage::Answering
            | Stage::Asking
            | Stage::Summing
            | Stage::Leaving(_) => None,
        }
    }

    fn acknowledged(&mut self, kind: MessageKind) -> Option<Reaction> {
        match (self.stage, kind) {
            (Stage::Answering, MessageKind::Answered)
                if self.script.asks && !self.functions.is_empty() =>
            {
                self.stage = Stage::Talking { half: 1 };
                Some(Reaction::WakeAfterMs(self.script.talk_ms / 2))
            }
            (Stage::Answering, MessageKind::Answered) => {
                self.stage = Stage::Talking { half: 2 };
                Some(Reaction::WakeAfterMs(self.script.talk_ms))
            }
            (Stage::Asking, MessageKind::Function) => {
                self.stage = Stage::Talking { half: 2 };
                Some(Reaction::WakeAfterMs(self.script.talk_ms.div_ceil(2)))
            }
            (Stage::Summing, MessageKind::Transcript) => {
                let initiator = if self.script.agent_ends {
                    HangupInitiator::Agent
                } else {
                    HangupInitiator::Caller
                };
                Some(self.leave(HangupReason::Normal, initiator, Outcomes::HungUp))
            }
            (Stage::Leaving(Outcomes::HungUp), MessageKind::HangUp) => {
                Some(Reaction::Over(CallEnd::HungUp))
            }
            (Stage::Leaving(Outcomes::Abandoned), MessageKind::HangUp) => {
                Some(Reaction::Over(CallEnd::Abandoned))
            }
            _ => None,
        }
    }

    /// True if the call waits for the reply to a message of this kind.
    fn awaits(&self, kind: MessageKind) -> bool {
        let awaited = match self.stage {
            Stage::Calling => MessageKind::Incoming,
            Stage::Answering => MessageKind::Answered,
            Stage::Asking => MessageKind::Function,
            Stage::Summing => MessageKind::Transcript,
            Stage::Leaving(_) => MessageKind::HangUp,
            Stage::Ringing | Stage::Talking { .. } => return false,
        };
        awaited == kind
    }

    fn ask(&self) -> (String, Say) {
        let function = &self.functions[self.script.choice % self.functions.len()];
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        let ask = Say::Ask {
            name: name.clone(),
            parameters: sample_arguments(&function["parameters"]),
        };
        (name, ask)
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
        self.say(Stage::Leaving(outcome), Say::HangUp { reason, initiator })
    }

    fn say(&mut self, stage: Stage, say: Say) -> Reaction {
        self.stage = stage;
        Reaction::Say(say)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SCRIPT: CallScript = CallScript {
        ring_ms: 100,
        talk_ms: 1_000,
        abandons: false,
        asks: false,
        agent_ends: false,
        choice: 0,
    };

    fn functions() -> Vec<Value> {
        vec![
            json!({"name": "checkOrder", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}),
        ]
    }

    fn taken() -> Incident {
        Incident::Taken {
            functions: functions(),
        }
    }

    /// Feeds inputs to a call and names the reaction to each.
    fn life(script: CallScript, heard: Vec<Incident>) -> Vec<String> {
        let mut call = SimulatedCall::new(script);
        let name = |effect: Option<Reaction>| match effect {
            None => "-".to_owned(),
            Some(Reaction::Say(Say::HangUp { reason, initiator })) => {
                format!("hangup {reason} {initiator}")
            }
            Some(Reaction::Say(Say::Ask { name, parameters })) => {
                format!("{name} {}", json!(parameters))
            }
            Some(Reaction::Say(say)) => format!("{:?}", say.kind()),
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
        use Incident::{Acknowledged, Wake};
        let whole = vec![
            taken(),
            Wake,
            Acknowledged(MessageKind::Answered),
            Wake,
            Acknowledged(MessageKind::Transcript),
            Acknowledged(MessageKind::HangUp),
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
        asking.splice(3..3, [Wake, Acknowledged(MessageKind::Function)]);
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
            vec![taken(), Wake, Acknowledged(MessageKind::HangUp)],
        );
        assert_eq!(seen, ["100 ms", "hangup abandoned caller", "Abandoned"]);
    }

    #[test]
    fn the_engine_can_refuse_end_and_transfer() {
        use Incident::{Acknowledged, HangUpCommand, TooLate, TransferCommand, Wake};
        let refused = life(
            SCRIPT,
            vec![Incident::Rejected {
                reason: "no_agent".into(),
            }],
        );
        assert_eq!(refused, ["Refused(\"no_agent\")"]);
        let cut = vec![
            taken(),
            Wake,
            Acknowledged(MessageKind::Answered),
            HangUpCommand(HangupReason::MaxDuration),
            HangUpCommand(HangupReason::MaxDuration),
            Wake,
            Acknowledged(MessageKind::HangUp),
        ];
        assert_eq!(
            life(SCRIPT, cut)[3..],
            ["hangup max_duration bridge", "-", "-", "HungUp"]
        );
        let moved = vec![
            taken(),
            Wake,
            Acknowledged(MessageKind::Answered),
            TransferCommand,
        ];
        assert_eq!(life(SCRIPT, moved)[3], "hangup transferred agent");
        let late = vec![
            taken(),
            Wake,
            TooLate(MessageKind::Transcript),
            TooLate(MessageKind::Answered),
        ];
        assert_eq!(life(SCRIPT, late)[2..], ["-", "EndedByEngine"]);
        let error = Incident::Error {
            to: MessageKind::Incoming,
            code: "unknown_number".into(),
        };
        assert_eq!(life(SCRIPT, vec![error]), ["Failed(\"unknown_number\")"]);
    }

    #[test]
    fn a_stop_hangs_up_as_soon_as_the_call_has_an_id() {
        let seen = life(
            SCRIPT,
            vec![
                Incident::Stop,
                taken(),
                Incident::Acknowledged(MessageKind::HangUp),
            ],
        );
        assert_eq!(seen, ["-", "hangup normal bridge", "HungUp"]);
    }

    fn anything() -> impl Strategy<Value = Incident> {
        let kind = prop::sample::select(vec![
            MessageKind::Incoming,
            MessageKind::Answered,
            MessageKind::Function,
            MessageKind::Transcript,
            MessageKind::HangUp,
        ]);
        prop_oneof![
            Just(taken()),
            kind.clone().prop_map(Incident::Acknowledged),
            kind.prop_map(Incident::TooLate),
            Just(Incident::Wake),
            Just(Incident::HangUpCommand(HangupReason::CreditsExhausted)),
            Just(Incident::TransferCommand),
            Just(Incident::Stop),
        ]
    }

    proptest! {
        #[test]
        fn whatever_it_hears_it_hangs_up_once_and_says_nothing_after(heard in prop::collection::vec(anything(), 0..40), asks: bool, abandons: bool) {
            let mut call = SimulatedCall::new(CallScript { asks, abandons, ..SCRIPT });
            let mut hung_up = false;
            for heard in heard {
                let effect = call.on(heard);
                prop_assert!(!hung_up || !matches!(effect, Some(Reaction::Say(_) | Reaction::WakeAfterMs(_))));
                hung_up |= matches!(effect, Some(Reaction::Say(Say::HangUp { .. })));
                if matches!(effect, Some(Reaction::Over(_))) {
                    break;
                }
            }
        }
    }
}
