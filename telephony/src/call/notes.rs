//! News of a call for the page of its browser: turns as they are spoken, and functions as they run. Pure.

use dikala_entities::{CallId, HangupReason, Speaker};
use dikala_protocol::{
    CallReport, InvocationOutcome, SpokenTurn,
    client::{ServiceEvent, ServiceReply},
};
use serde_json::{Map, Value};

use super::machine::{MachineEffect, MachineInput};
use crate::voice::VoiceEvent;

/// Bytes of a turn that is not over.
const OPEN_BYTES_MAX: usize = 16 * 1024;
/// Functions whose names are kept for their outcomes.
const FUNCTIONS_MAX: usize = 64;

/// A piece of news about a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallNote {
    /// The service has taken it.
    Taken(CallId),
    /// The words of a side so far in its turn.
    Saying {
        role: Speaker,
        text: String,
    },
    /// A turn that is over, by its number. A later one with the same number replaces it.
    Said {
        n: u32,
        turn: SpokenTurn,
    },
    /// A function runs.
    Calling {
        name: String,
        parameters: Map<String, Value>,
    },
    Called {
        name: String,
        outcome: InvocationOutcome,
    },
    Ended(HangupReason),
}

/// Makes notes of what a call does.
#[derive(Debug, Default)]
pub(super) struct NoteTaker {
    caller: String,
    agent: String,
    /// Keys are masked, and may be among what is said.
    hides_digits: bool,
    /// Functions under way, by the id of the invocation.
    functions: Vec<(String, String)>,
}

impl NoteTaker {
    pub(super) fn of_input(&mut self, input: &MachineInput) -> Option<CallNote> {
        match input {
            MachineInput::Voice(VoiceEvent::CallerSaid(piece)) => self.says(Speaker::Caller, piece),
            MachineInput::Voice(VoiceEvent::AgentSaid(piece)) => self.says(Speaker::Agent, piece),
            MachineInput::Service(ServiceEvent::Reply(reply, _)) => self.replied(reply),
            _ => None,
        }
    }

    fn replied(&mut self, reply: &ServiceReply) -> Option<CallNote> {
        match reply {
            ServiceReply::Taken { call, agent, .. } => {
                self.hides_digits = agent.conversation.mask_keys;
                Some(CallNote::Taken(*call))
            }
            ServiceReply::Refused { reason } => Some(CallNote::Ended(*reason)),
            ServiceReply::Outcome {
                invocation_id,
                outcome,
            } => {
                let is_it = |(id, _): &(String, String)| id == invocation_id;
                let at = self.functions.iter().position(is_it)?;
                let (_, name) = self.functions.swap_remove(at);
                let outcome = outcome.clone();
                Some(CallNote::Called { name, outcome })
            }
            ServiceReply::Done(_) | ServiceReply::Declined { .. } => None,
        }
    }

    pub(super) fn of_effect(&mut self, effect: &MachineEffect) -> Option<CallNote> {
        let MachineEffect::Service(report, _) = effect else {
            return None;
        };
        match report {
            CallReport::Turn { turn } => {
                match turn.turn.role {
                    Speaker::Caller => self.caller.clear(),
                    Speaker::Agent => self.agent.clear(),
                    Speaker::Tool => return None,
                }
                Some(CallNote::Said {
                    n: turn.n,
                    turn: turn.turn.clone(),
                })
            }
            CallReport::Function(function) => {
                if self.functions.len() < FUNCTIONS_MAX {
                    let called = (function.invocation_id.clone(), function.name.clone());
                    self.functions.push(called);
                }
                Some(CallNote::Calling {
                    name: function.name.clone(),
                    parameters: function.parameters.clone(),
                })
            }
            CallReport::Hangup { reason, .. } | CallReport::Failed { reason, .. } => {
                Some(CallNote::Ended(*reason))
            }
            CallReport::Answered
            | CallReport::Transcript { .. }
            | CallReport::Transferred { .. } => None,
        }
    }

    fn says(&mut self, role: Speaker, piece: &str) -> Option<CallNote> {
        let open = match role {
            Speaker::Caller => &mut self.caller,
            Speaker::Agent | Speaker::Tool => &mut self.agent,
        };
        if open.len() + piece.len() > OPEN_BYTES_MAX {
            return None;
        }
        match self.hides_digits {
            true => open.push_str(&piece.replace(|sign: char| sign.is_ascii_digit(), "•")),
            false => open.push_str(piece),
        }
        let text = open.trim().to_owned();
        (!text.is_empty()).then_some(CallNote::Saying { role, text })
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;
    use dikala_protocol::{FunctionInvocation, NumberedTurn, client::ReplyDelay};

    use super::*;

    fn said(piece: &str) -> MachineInput {
        MachineInput::Voice(VoiceEvent::CallerSaid(piece.to_owned()))
    }

    fn does(report: CallReport) -> MachineEffect {
        MachineEffect::Service(report, Millis::MIN)
    }

    fn saying(text: &str) -> Option<CallNote> {
        let role = Speaker::Caller;
        let text = text.to_owned();
        Some(CallNote::Saying { role, text })
    }

    #[test]
    fn a_turn_grows_and_begins_anew_once_it_was_told() {
        let mut notes = NoteTaker::default();
        assert_eq!(notes.of_input(&said(" ")), None);
        assert_eq!(notes.of_input(&said("Two ")), saying("Two"));
        assert_eq!(notes.of_input(&said("coffees.")), saying("Two coffees."));
        let turn = SpokenTurn::new(Speaker::Caller, "Two coffees.".to_owned(), None);
        let told = does(CallReport::Turn {
            turn: NumberedTurn {
                n: 1,
                turn: turn.clone(),
            },
        });
        assert_eq!(notes.of_effect(&told), Some(CallNote::Said { n: 1, turn }));
        assert_eq!(notes.of_input(&said("Thanks")), saying("Thanks"));
        let long = "a".repeat(OPEN_BYTES_MAX);
        assert_eq!(notes.of_input(&said(&long)), None);
        notes.hides_digits = true;
        assert_eq!(notes.of_input(&said(" 42")), saying("Thanks ••"));
    }

    #[test]
    fn an_outcome_belongs_to_the_function_of_its_invocation() {
        let mut notes = NoteTaker::default();
        for (id, name) in [("1", "check"), ("2", "book")] {
            let called = does(CallReport::Function(FunctionInvocation {
                invocation_id: id.to_owned(),
                name: name.to_owned(),
                parameters: Map::new(),
                trace: None,
            }));
            let (name, parameters) = (name.to_owned(), Map::new());
            let calling = CallNote::Calling { name, parameters };
            assert_eq!(notes.of_effect(&called), Some(calling));
        }
        let outcome = InvocationOutcome::Ok { result: Map::new() };
        let reply = ServiceReply::Outcome {
            invocation_id: "2".to_owned(),
            outcome: outcome.clone(),
        };
        let reply = MachineInput::Service(ServiceEvent::Reply(reply, ReplyDelay::default()));
        let name = "book".to_owned();
        let called = CallNote::Called { name, outcome };
        assert_eq!(notes.of_input(&reply), Some(called));
        assert_eq!(notes.of_input(&reply), None, "once");
    }
}
