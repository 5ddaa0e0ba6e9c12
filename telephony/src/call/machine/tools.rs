//! Tool calls of the model: the built-in ones, and the agent's functions with their outcomes.

use dikala_entities::Speaker;
use dikala_protocol::{CallReport, FunctionInvocation, InvocationOutcome};
use serde_json::{Map, Value, json};

use super::{
    CallMachine, MachineEffect, Now, Phase, VoiceState,
    functions::{AnsweredFunction, FunctionDecision, answer},
};
use crate::voice::{ToolOutcome, VoiceInput, late_outcome, outcome_in_words};

/// Transfers that the agent may try in one call. Each may cost the operator a telephone call.
pub(super) const TRANSFERS_MAX: u8 = 5;
/// Tool with which the agent ends the call.
const END_CALL: &str = "end_call";
/// Tool with which the agent transfers the caller to a person.
const TRANSFER_TO_HUMAN: &str = "transfer_to_human";

impl CallMachine {
    /// Handles a tool call of the model.
    pub(super) fn tool(
        &mut self,
        id: String,
        name: &str,
        arguments: Map<String, Value>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let words = match &self.phase {
            Phase::Talking => None,
            Phase::Leaving(leaving) if leaving.is_for_a_person() => {
                Some("The caller is being connected to a person. Say no more.")
            }
            _ => Some("The call is ending."),
        };
        if let Some(words) = words {
            answer(id, ToolOutcome::failure("call_ending", words), out);
            return;
        }
        let agent = self.agent.as_ref();
        let is_enabled = agent.is_some_and(|agent| agent.tools.iter().any(|tool| tool == name));
        let person = agent.and_then(|agent| agent.escalation_number.clone());
        match (name, person) {
            (END_CALL, _) if is_enabled => {
                self.transcript.whole(Speaker::Tool, name, now.at);
                let done = json!({"ending": "The call ends once all is said. Say no more."});
                answer(id, ToolOutcome::success(done), out);
                self.leave_once_said(now, out);
            }
            (TRANSFER_TO_HUMAN, Some(_)) if is_enabled && self.transfers >= TRANSFERS_MAX => {
                let words = "No person could be reached. Go on without one.";
                answer(id, ToolOutcome::failure("too_many", words), out);
            }
            (TRANSFER_TO_HUMAN, Some(to)) if is_enabled => {
                self.transcript.whole(Speaker::Tool, name, now.at);
                self.transfers += 1;
                self.transfer(to, Some(id), now, out);
            }
            (END_CALL | TRANSFER_TO_HUMAN, _) => {
                let words = format!("{name} is not available in this call.");
                answer(id, ToolOutcome::failure("disabled", &words), out);
            }
            _ => self.function(id, name, arguments, now, out),
        }
    }

    fn function(
        &mut self,
        id: String,
        name: &str,
        arguments: Map<String, Value>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        match self.functions.ask(&id, name, &arguments, now.ms) {
            FunctionDecision::Call { invocation_id } => {
                self.transcript.whole(Speaker::Tool, name, now.at);
                let function = CallReport::Function(FunctionInvocation {
                    invocation_id,
                    name: name.to_owned(),
                    parameters: arguments,
                    trace: None,
                });
                out.push(MachineEffect::Service(function, now.at));
                self.guard.function_began(now.ms);
            }
            FunctionDecision::Kept(kept) => answer(id, kept, out),
            FunctionDecision::Joined => {}
            FunctionDecision::TooMany => {
                let words = "Too many functions are under way; wait for their results.";
                answer(id, ToolOutcome::failure("busy", words), out);
            }
        }
    }

    pub(super) fn function_done(
        &mut self,
        invocation_id: &str,
        outcome: InvocationOutcome,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let done = match outcome {
            InvocationOutcome::Ok { result } => ToolOutcome::success(Value::Object(result)),
            InvocationOutcome::Error { code, message } => {
                let name = self.functions.name_of(invocation_id).unwrap_or_default();
                let words = format!("{name} failed: {code}");
                self.transcript.whole(Speaker::Tool, &words, now.at);
                ToolOutcome::failure(&code, &message)
            }
        };
        let Some(answered) = self.functions.answered(invocation_id, &done, now.ms) else {
            return;
        };
        if let Some((name, arguments)) = self.functions.call_of(invocation_id) {
            let words = outcome_in_words(name, arguments, done.text());
            self.transcript.tool_answered(name, words);
        }
        self.guard.function_ended(now.ms);
        match answered {
            _ if self.voice == VoiceState::None => {}
            AnsweredFunction::Wanted(ids) => {
                for id in ids {
                    answer(id, done.clone(), out);
                }
            }
            AnsweredFunction::Late { name, arguments } => {
                let words = late_outcome(&name, &arguments, done.text());
                out.push(MachineEffect::Voice(VoiceInput::Text(words)));
            }
        }
    }
}
