//! The conversation as messages of the chat interface.
//!
//! The record is that of all voices. Beside it stand the calls of functions, which the interface wants in a form of its own: the
//! outcome of each call follows it at once.

use std::collections::VecDeque;

use dikala_entities::Speaker;
use serde_json::{Value, json};

use crate::voice::{
    ToolOutcome,
    common::{ConversationRecord, Role, words},
};

/// Responses with calls that are remembered as such; older ones stay in the record as text.
const GROUPS_MOST: usize = 16;
/// The outcome of a function that is still running.
const PENDING: &str = r#"{"pending":"The result is not there yet. It follows later."}"#;
/// Some servers want the first message to be the caller's.
pub(in crate::voice::pipeline) const ANSWERED: &str = "[The call has just been answered.]";

#[derive(Debug)]
pub(super) struct ChatHistory {
    record: ConversationRecord,
    groups: VecDeque<CallGroup>,
    made: u64,
}

/// The calls of one response.
#[derive(Debug)]
struct CallGroup {
    id: String,
    calls: Vec<ChatCall>,
}

/// A call of a function, with its arguments as JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ChatCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub outcome: Option<ToolOutcome>,
    /// The model was asked without the outcome.
    pub was_pending: bool,
}

impl ChatHistory {
    pub(super) fn new(so_far: &[(Speaker, String)]) -> Self {
        Self {
            record: ConversationRecord::from(so_far),
            groups: VecDeque::new(),
            made: 0,
        }
    }

    /// The caller's last words, if there are any.
    pub(super) fn last_of_caller(&self) -> &str {
        self.record.last_of_caller()
    }

    /// Words of the caller; adjacent ones are one turn.
    pub(super) fn caller(&mut self, words: &str) {
        self.record.turn_over();
        self.record.add(Role::Caller, &format!("{words} "));
    }

    /// A note of the telephone system.
    pub(super) fn note(&mut self, text: &str) {
        self.record.add(Role::Tool, text);
    }

    /// A clause of the agent.
    pub(super) fn agent(&mut self, id: &str, clause: &str) {
        self.record.add_to(Role::Agent, id, clause);
    }

    /// Cuts a clause of which the part `heard` of `all` was heard.
    pub(super) fn keep(&mut self, id: &str, heard: u64, all: u64) {
        match heard {
            0 => self.record.remove(id),
            _ => self.record.keep(id, heard, all),
        }
    }

    /// The functions that one response calls.
    pub(super) fn called(&mut self, calls: Vec<ChatCall>) {
        self.made += 1;
        let id = format!("calls-{}", self.made);
        self.record.begin(Role::Tool, &id);
        if self.groups.len() == GROUPS_MOST {
            self.groups.pop_front();
        }
        self.groups.push_back(CallGroup { id, calls });
    }

    /// The outcome of a call. One that comes after the model was asked without it becomes a note.
    pub(super) fn outcome(&mut self, id: &str, outcome: ToolOutcome) {
        for group in &mut self.groups {
            let Some(call) = group.calls.iter_mut().find(|call| call.id == id) else {
                continue;
            };
            let (name, arguments) = (&call.name, &call.arguments);
            if call.was_pending {
                let late = words::late_outcome(name, arguments, outcome.text());
                return self.record.add(Role::Tool, &late);
            }
            let told = words::outcome_in_words(name, arguments, outcome.text());
            self.record.add_to(Role::Tool, &group.id, &told);
            call.outcome = Some(outcome);
            return;
        }
    }

    /// All messages, with the instruction first, and a message of the caller's side next. Callers and agents take turns, because the
    /// templates of some models refuse others.
    pub(super) fn messages(&mut self, instruction: &str) -> Vec<Value> {
        let mut messages = vec![json!({"role": "system", "content": instruction})];
        for (id, role, text) in self.record.turns_with_ids() {
            let mut groups = self.groups.iter_mut();
            let group = groups.find(|group| id == Some(group.id.as_str()));
            match (role, group) {
                (_, Some(group)) => push_calls(&mut messages, &mut group.calls),
                (Role::Agent, None) => push(&mut messages, "assistant", " ", &text),
                (Role::Caller | Role::Tool, None) => push(&mut messages, "user", "\n", &text),
            }
        }
        if messages.get(1).is_none_or(|first| first["role"] != "user") {
            messages.insert(1, json!({"role": "user", "content": ANSWERED}));
        }
        messages
    }
}

/// Adds a text, to the last message if it is of the same side.
pub(in crate::voice::pipeline) fn push(
    messages: &mut Vec<Value>,
    role: &str,
    separator: &str,
    text: &str,
) {
    if matches!(text, "" | "[]") {
        return;
    }
    match messages.last_mut() {
        Some(last) if last["role"] == role && last.get("tool_calls").is_none() => {
            let before = last["content"].as_str().unwrap_or_default();
            last["content"] = json!(format!("{before}{separator}{text}"));
        }
        _ => messages.push(json!({"role": role, "content": text})),
    }
}

/// Adds calls, each with its outcome.
fn push_calls(messages: &mut Vec<Value>, calls: &mut [ChatCall]) {
    let is_agents =
        |last: &&mut Value| last["role"] == "assistant" && last.get("tool_calls").is_none();
    let called = calls.iter().map(|call| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        json!({"id": call.id, "type": "function", "function": function})
    });
    let called: Vec<Value> = called.collect();
    match messages.last_mut().filter(is_agents) {
        Some(last) => last["tool_calls"] = json!(called),
        None => messages.push(json!({"role": "assistant", "content": "", "tool_calls": called})),
    }
    for call in calls {
        call.was_pending |= call.outcome.is_none();
        let outcome = call.outcome.as_ref().map_or(PENDING, ToolOutcome::text);
        messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": outcome}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ChatCall {
        ChatCall {
            id: id.to_owned(),
            name: "check_order".to_owned(),
            arguments: r#"{"orderId":"1"}"#.to_owned(),
            ..ChatCall::default()
        }
    }

    fn done() -> ToolOutcome {
        ToolOutcome::success(json!({"minutes": 20}))
    }

    /// Each message as `role: content`, with the ids of calls.
    fn shown(history: &mut ChatHistory) -> Vec<String> {
        let show = |message: &Value| {
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let ids: String = calls
                .map(|call| format!(" +{}", text(&call["id"])))
                .collect();
            let of = text(&message["tool_call_id"]);
            format!(
                "{}{of}: {}{ids}",
                text(&message["role"]),
                text(&message["content"])
            )
        };
        history.messages("Be kind.").iter().map(show).collect()
    }

    #[test]
    fn sides_take_turns_and_outcomes_follow_their_calls() {
        let mut history = ChatHistory::new(&[]);
        history.agent("c-1", "Kopi Senja!");
        history.caller("Where is");
        history.caller("my order?");
        history.note("the caller pressed 1");
        history.agent("c-2", "Let me look.");
        history.agent("c-3", "One moment.");
        history.called(vec![call("a"), call("b")]);
        history.outcome("b", done());
        history.outcome("a", done());
        history.outcome("unknown", done());
        let outcome = r#"{"output":{"minutes":20}}"#;
        assert_eq!(
            shown(&mut history),
            [
                "system: Be kind.",
                "user: [The call has just been answered.]",
                "assistant: Kopi Senja!",
                "user: Where is my order?\n[the caller pressed 1]",
                "assistant: Let me look. One moment. +a +b",
                &format!("toola: {outcome}"),
                &format!("toolb: {outcome}"),
            ]
        );
    }

    #[test]
    fn the_instruction_never_stands_alone() {
        let mut history = ChatHistory::new(&[]);
        let answered = format!("user: {ANSWERED}");
        assert_eq!(shown(&mut history), ["system: Be kind.", &answered]);
        history.called(vec![call("a")]);
        let told = shown(&mut history);
        assert_eq!(told[1..3], [answered, "assistant:  +a".to_owned()]);
    }

    #[test]
    fn a_late_outcome_is_told_as_a_note() {
        let mut history = ChatHistory::new(&[(Speaker::Caller, "Halo".to_owned())]);
        history.called(vec![call("a")]);
        assert_eq!(shown(&mut history)[3], format!("toola: {PENDING}"));
        history.outcome("a", done());
        let told = shown(&mut history);
        assert_eq!(told[3], format!("toola: {PENDING}"));
        assert!(
            told[4].starts_with("user: [The function check_order"),
            "{told:?}"
        );
        assert!(
            told[4].contains("20") && told[4].contains("do not call"),
            "{told:?}"
        );
    }

    #[test]
    fn only_what_was_heard_stays() {
        let mut history = ChatHistory::new(&[]);
        history.caller("Halo");
        history.agent("c-1", "It comes in twenty minutes.");
        history.agent("c-2", "Never heard.");
        history.keep("c-1", 300, 1_000);
        history.keep("c-2", 0, 1_000);
        history.caller("Yes?");
        assert_eq!(
            shown(&mut history)[1..],
            ["user: Halo", "assistant: It comes", "user: Yes?"]
        );
    }

    #[test]
    fn it_is_bounded() {
        let mut history = ChatHistory::new(&[]);
        for number in 0..200 {
            history.caller("Halo");
            history.called(vec![call(&number.to_string())]);
            history.outcome(
                &number.to_string(),
                ToolOutcome::success(json!({"a": "x".repeat(9_000)})),
            );
        }
        assert!(history.groups.len() <= GROUPS_MOST);
        let length: usize = shown(&mut history).iter().map(String::len).sum();
        assert!(length < 60_000, "{length}");
    }
}
