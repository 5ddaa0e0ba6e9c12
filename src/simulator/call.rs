//! One simulated call as a state machine. Pure: the caller supplies time, randomness and the socket.

use dikala_entities::{CallStatus, HangupInitiator, HangupReason, Millis, Speaker};
use dikala_protocol::{
    CallReport, CommandKind, FunctionDeclaration, FunctionInvocation, MessageType, NumberedTurn,
    SpokenTurn, VoiceReport, client::ServiceReply,
};

use super::{arguments::sample_arguments, scenario::CallScript, transcripts::Conversation};

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
    /// Somebody speaks. The reply is not waited for.
    Turn {
        turn: NumberedTurn,
        wake_after_ms: u64,
    },
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
    conversation: Conversation,
    said: Vec<SpokenTurn>,
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
            conversation: Conversation::new("", script.choice, None),
            said: Vec::new(),
            stopped: false,
        }
    }

    /// Handles an input. Inputs that do not fit the current stage are ignored.
    pub fn on(&mut self, heard: Incident, at: Millis) -> Option<Reaction> {
        match heard {
            Incident::Reply(reply) => self.on_reply(reply),
            Incident::Wake => self.wake(at),
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
                Some(self.taken(&agent.language, agent.functions))
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

    fn taken(&mut self, language: &str, functions: Vec<FunctionDeclaration>) -> Reaction {
        if self.stopped {
            return self.leave(
                HangupReason::Normal,
                HangupInitiator::Bridge,
                Outcomes::HungUp,
            );
        }
        self.functions = functions;
        let function = self.function().map(|function| function.name.as_str());
        self.conversation = Conversation::new(language, self.script.choice, function);
        self.stage = Stage::Ringing;
        Reaction::WakeAfterMs(self.script.ring_ms)
    }

    fn wake(&mut self, at: Millis) -> Option<Reaction> {
        if let Stage::Talking { half } = self.stage
            && let Some((role, text)) = self.next_words(half)
        {
            let turn = self.note(role, text, at);
            let wake_after_ms = self.pause_ms();
            return Some(Reaction::Turn {
                turn,
                wake_after_ms,
            });
        }
        match self.stage {
            Stage::Ringing if self.script.abandons => Some(self.leave(
                HangupReason::Abandoned,
                HangupInitiator::Caller,
                Outcomes::Abandoned,
            )),
            Stage::Ringing => Some(self.say(Stage::Answering, CallReport::Answered)),
            Stage::Talking { half: 1 } => {
                let invocation = self.invocation()?;
                if !self.said.iter().any(|turn| turn.role == Speaker::Tool) {
                    return Some(Reaction::Turn {
                        turn: self.note(Speaker::Tool, &invocation.name, at),
                        wake_after_ms: 0,
                    });
                }
                Some(self.say(Stage::Asking, CallReport::Function(invocation)))
            }
            Stage::Talking { .. } => {
                let report = CallReport::Transcript {
                    summary: self.conversation.summary.clone(),
                    turns: self.said.clone(),
                };
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
            (Stage::Answering, MessageType::Answered) => {
                let half = if self.function().is_some() { 1 } else { 2 };
                self.stage = Stage::Talking { half };
                Some(Reaction::WakeAfterMs(self.pause_ms()))
            }
            (Stage::Asking, MessageType::Function) => {
                self.stage = Stage::Talking { half: 2 };
                Some(Reaction::WakeAfterMs(self.pause_ms()))
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

    /// The next words up to the end of this half.
    fn next_words(&self, half: u8) -> Option<(Speaker, &'static str)> {
        let Conversation { first, second, .. } = &self.conversation;
        let is_words = |turn: &&SpokenTurn| turn.role != Speaker::Tool;
        let said = self.said.iter().filter(is_words).count();
        let mut words = first.iter().chain(second.iter().filter(|_| half == 2));
        words.nth(said).copied()
    }

    /// The pause before each turn, and before what follows the last one.
    fn pause_ms(&self) -> u64 {
        let Conversation { first, second, .. } = &self.conversation;
        self.script.talk_ms / (first.len() + second.len() + 1) as u64
    }

    fn note(&mut self, role: Speaker, text: &str, at: Millis) -> NumberedTurn {
        let turn = SpokenTurn::new(role, text.to_owned(), Some(at));
        self.said.push(turn.clone());
        NumberedTurn {
            n: self.said.len() as u32,
            turn,
        }
    }

    /// The function that the AI calls half-way.
    fn function(&self) -> Option<&FunctionDeclaration> {
        let asked = self.script.asks.then_some(self.script.choice);
        self.functions
            .iter()
            .cycle()
            .nth(asked? % self.functions.len().max(1))
    }

    fn invocation(&self) -> Option<FunctionInvocation> {
        let function = self.function()?;
        Some(FunctionInvocation {
            invocation_id: self.invocation_id.clone(),
            name: function.name.clone(),
            parameters: sample_arguments(&function.parameters),
            trace: None,
        })
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
mod tests;
