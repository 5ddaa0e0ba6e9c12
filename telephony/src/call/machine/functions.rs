//! Function calls of the model, made idempotent across reconnections.
//!
//! A model that reconnects may repeat its earlier calls. The same name and arguments then get the outcome of the first call for
//! [`KEPT_MS`], as does a call that the model cancelled and wants after all. A repeat over the same connection, or after that
//! time, is a new call: the answer may have changed.

use serde_json::{Map, Value};

use super::MachineEffect;
use crate::voice::{ToolOutcome, VoiceInput};

/// Function calls of one call that may be under way at the service.
const RUNNING_MAX: usize = 32;
/// Function calls of one call that are remembered.
const REMEMBERED_MAX: usize = 64;
/// Bytes of arguments and outcomes from which the oldest outcome is forgotten.
const REMEMBERED_BYTES: usize = 1024 * 1024;
/// The time in which an outcome answers the same question.
const KEPT_MS: u64 = 120_000;
/// The longest invocation id that the service accepts.
const ID_CHARS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct FunctionCalls {
    invocations: Vec<Invocation>,
    /// Number of reconnections to the model.
    connections: u64,
    /// Number of voice sessions that replaced another.
    sessions: u64,
    asked: u64,
}

#[derive(Debug)]
struct Invocation {
    id: String,
    name: String,
    /// As JSON, which takes less memory than the values.
    arguments: String,
    /// The model's ids that wait for the answer, or have waited.
    waiting: Vec<String>,
    connection: u64,
    session: u64,
    is_cancelled: bool,
    /// The outcome, with the time when it came.
    outcome: Option<(u64, ToolOutcome)>,
}

/// The decision about a function that the model calls.
#[derive(Debug, PartialEq)]
pub(super) enum FunctionDecision {
    /// Call it under this id.
    Call { invocation_id: String },
    /// Answer with this earlier outcome.
    Kept(ToolOutcome),
    /// Wait for the invocation that is already under way.
    Joined,
    /// Refuse: too many are under way.
    TooMany,
}

/// An invocation that has its outcome.
#[derive(Debug, PartialEq)]
pub(super) enum AnsweredFunction {
    /// The model's ids that wait for it.
    Wanted(Vec<String>),
    /// A session that is gone called the function. The present one knows of no call.
    Late { name: String, arguments: String },
}

impl FunctionCalls {
    pub(super) fn reconnected(&mut self) {
        self.connections += 1;
    }

    /// Another voice session begins, and may call again what the last one has called.
    pub(super) fn reopened(&mut self) {
        self.reconnected();
        self.sessions += 1;
        for made in &mut self.invocations {
            made.waiting.clear();
        }
    }

    pub(super) fn ask(
        &mut self,
        tool: &str,
        name: &str,
        arguments: &Map<String, Value>,
        now_ms: u64,
    ) -> FunctionDecision {
        let (connection, session) = (self.connections, self.sessions);
        let arguments = Value::Object(arguments.clone()).to_string();
        let same = self.invocations.iter_mut().rev().find(|made| {
            let is_repeat =
                made.connection == connection && made.waiting.iter().any(|waiting| waiting == tool);
            let answered = made.outcome.as_ref().map(|(at, _)| *at);
            let is_kept = answered.is_none_or(|at| now_ms.saturating_sub(at) <= KEPT_MS);
            let is_wanted_again = made.is_cancelled || made.connection < connection;
            made.name == name
                && made.arguments == arguments
                && (is_repeat || is_kept && is_wanted_again)
        });
        if let Some(made) = same {
            made.connection = connection;
            made.session = session;
            made.is_cancelled = false;
            if !made.waiting.iter().any(|waiting| waiting == tool) {
                made.waiting.push(tool.to_owned());
            }
            let kept = made.outcome.as_ref().map(|(_, outcome)| outcome.clone());
            return kept.map_or(FunctionDecision::Joined, FunctionDecision::Kept);
        }
        let running = self
            .invocations
            .iter()
            .filter(|made| made.outcome.is_none());
        if running.count() >= RUNNING_MAX {
            return FunctionDecision::TooMany;
        }
        self.forget();
        let invocation_id = self.new_id(tool);
        self.invocations.push(Invocation {
            id: invocation_id.clone(),
            name: name.to_owned(),
            arguments,
            waiting: vec![tool.to_owned()],
            connection,
            session,
            is_cancelled: false,
            outcome: None,
        });
        FunctionDecision::Call { invocation_id }
    }

    /// Makes room for another call. Those under way are not forgotten; they are few.
    fn forget(&mut self) {
        while self.invocations.len() >= REMEMBERED_MAX || self.bytes() >= REMEMBERED_BYTES {
            let mut invocations = self.invocations.iter();
            let Some(oldest) = invocations.position(|made| made.outcome.is_some()) else {
                return;
            };
            self.invocations.remove(oldest);
        }
    }

    fn bytes(&self) -> usize {
        let outcome = |made: &Invocation| {
            let outcome = made.outcome.as_ref();
            outcome.map_or(0, |(_, outcome)| outcome.text().len())
        };
        let bytes = |made| outcome(made) + made.arguments.len();
        self.invocations.iter().map(bytes).sum()
    }

    /// The model's own id if it is new. A reconnected model may reuse ids, and the service would take a reused id for a repeat.
    fn new_id(&mut self, tool: &str) -> String {
        self.asked += 1;
        let fits = (1..=ID_CHARS_MAX).contains(&tool.chars().count()) && !tool.contains('\0');
        let is_new = self.invocations.iter().all(|made| made.id != tool);
        if fits && is_new && self.connections == 0 {
            return tool.to_owned();
        }
        let head: String = tool.chars().filter(|c| *c != '\0').take(40).collect();
        format!("{head}~{}", self.asked)
    }

    /// Stores the outcome of a function. `None`: it has one already, or is unknown.
    pub(super) fn answered(
        &mut self,
        invocation_id: &str,
        outcome: &ToolOutcome,
        now_ms: u64,
    ) -> Option<AnsweredFunction> {
        let made = self
            .invocations
            .iter_mut()
            .find(|made| made.id == invocation_id && made.outcome.is_none());
        let made = made?;
        made.outcome = Some((now_ms, outcome.clone()));
        Some(match made.session == self.sessions {
            true => AnsweredFunction::Wanted(made.waiting.clone()),
            false => AnsweredFunction::Late {
                name: made.name.clone(),
                arguments: made.arguments.clone(),
            },
        })
    }

    /// The model wants no answer under these ids. The voice gets the answer anyway and drops it.
    pub(super) fn cancel(&mut self, tools: &[String]) {
        for made in &mut self.invocations {
            let waiting = &made.waiting;
            made.is_cancelled |= waiting.iter().all(|waiting| tools.contains(waiting));
        }
    }

    /// Name and arguments.
    pub(super) fn call_of(&self, invocation_id: &str) -> Option<(&str, &str)> {
        let mut made = self.invocations.iter();
        let made = made.find(|made| made.id == invocation_id)?;
        Some((&made.name, &made.arguments))
    }

    pub(super) fn name_of(&self, invocation_id: &str) -> Option<&str> {
        let mut made = self.invocations.iter();
        let made = made.find(|made| made.id == invocation_id)?;
        Some(&made.name)
    }
}

pub(super) fn answer(id: String, outcome: ToolOutcome, out: &mut Vec<MachineEffect>) {
    out.push(MachineEffect::Voice(VoiceInput::ToolOutcome {
        id,
        outcome,
    }));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            _ => unreachable!("objects only"),
        }
    }

    fn call(id: &str) -> FunctionDecision {
        FunctionDecision::Call {
            invocation_id: id.to_owned(),
        }
    }

    fn wanted(ids: &[&str]) -> Option<AnsweredFunction> {
        let ids = ids.iter().map(|id| (*id).to_owned());
        Some(AnsweredFunction::Wanted(ids.collect()))
    }

    #[test]
    fn after_a_reconnection_the_same_wish_gets_what_came_of_the_first() {
        let mut functions = FunctionCalls::default();
        let arguments = object(json!({"orderId": "1"}));
        let outcome = ToolOutcome::success(json!({"minutes": 20}));
        assert_eq!(functions.ask("a", "check", &arguments, 0), call("a"));
        assert_eq!(functions.answered("a", &outcome, 0), wanted(&["a"]));
        functions.reconnected();
        let kept = functions.ask("b", "check", &arguments, 0);
        assert_eq!(kept, FunctionDecision::Kept(outcome));
        // A repeat over the same connection is a new call.
        assert_eq!(functions.ask("c", "check", &arguments, 0), call("c~2"));
        let others = object(json!({"orderId": "2"}));
        assert_eq!(functions.ask("d", "check", &others, 0), call("d~3"));
    }

    #[test]
    fn what_came_of_a_function_is_kept_for_two_minutes() {
        let mut functions = FunctionCalls::default();
        let none = Map::new();
        let outcome = ToolOutcome::success(json!({"minutes": 20}));
        assert_eq!(functions.ask("a", "check", &none, 0), call("a"));
        // The time counts from the answer, not from the call.
        assert_eq!(functions.answered("a", &outcome, 60_000), wanted(&["a"]));
        functions.reconnected();
        let kept = || FunctionDecision::Kept(outcome.clone());
        assert_eq!(functions.ask("b", "check", &none, 180_000), kept());
        functions.reconnected();
        assert_eq!(functions.ask("c", "check", &none, 180_001), call("c~2"));
        // The newest outcome counts from now on. A call under way is joined however old it is.
        functions.reconnected();
        let joined = functions.ask("d", "check", &none, 900_000);
        assert_eq!(joined, FunctionDecision::Joined);
        // A model that cancelled a call and repeats it much later means a new call.
        let answered = functions.answered("c~2", &outcome, 900_000);
        assert_eq!(answered, wanted(&["c", "d"]));
        functions.cancel(&["c".to_owned(), "d".to_owned()]);
        assert_eq!(functions.ask("e", "check", &none, 1_020_001), call("e~3"));
        // A repeat under the same id is never a new call.
        assert_eq!(
            functions.answered("e~3", &outcome, 1_020_001),
            wanted(&["e"])
        );
        assert_eq!(functions.ask("e", "check", &none, 9_000_000), kept());
    }

    #[test]
    fn one_under_way_is_joined_and_answered_to_all_who_wait() {
        let mut functions = FunctionCalls::default();
        let none = Map::new();
        let outcome = ToolOutcome::success(json!({}));
        assert_eq!(functions.ask("a", "check", &none, 0), call("a"));
        assert_eq!(
            functions.ask("a", "check", &none, 0),
            FunctionDecision::Joined
        );
        functions.reconnected();
        assert_eq!(
            functions.ask("b", "check", &none, 0),
            FunctionDecision::Joined
        );
        assert_eq!(functions.answered("a", &outcome, 0), wanted(&["a", "b"]));
        assert_eq!(functions.answered("a", &outcome, 0), None);
    }

    #[test]
    fn an_id_that_is_used_anew_is_another_call() {
        let mut functions = FunctionCalls::default();
        let none = Map::new();
        assert_eq!(functions.ask("1", "check", &none, 0), call("1"));
        assert_eq!(functions.ask("1", "order", &none, 0), call("1~2"));
        let long = "x".repeat(100);
        let FunctionDecision::Call { invocation_id } = functions.ask(&long, "check", &none, 0)
        else {
            panic!("it is called");
        };
        assert!(invocation_id.len() <= ID_CHARS_MAX);
    }

    #[test]
    fn a_cancelled_call_is_not_made_again() {
        let mut functions = FunctionCalls::default();
        let none = Map::new();
        let outcome = ToolOutcome::success(json!({}));
        assert_eq!(functions.ask("a", "order", &none, 0), call("a"));
        functions.cancel(&["a".to_owned()]);
        assert_eq!(functions.answered("a", &outcome, 0), wanted(&["a"]));
        assert_eq!(
            functions.ask("b", "order", &none, 0),
            FunctionDecision::Kept(outcome)
        );
    }

    #[test]
    fn neither_those_under_way_nor_the_memory_grow_without_bound() {
        let mut functions = FunctionCalls::default();
        let none = Map::new();
        for number in 0..RUNNING_MAX {
            let id = number.to_string();
            assert_eq!(functions.ask(&id, "check", &none, 0), call(&id));
        }
        assert_eq!(
            functions.ask("more", "check", &none, 0),
            FunctionDecision::TooMany
        );
        let outcome = ToolOutcome::success(json!({"text": "x".repeat(65_000)}));
        for number in 0..500 {
            let id = functions
                .invocations
                .iter()
                .find(|made| made.outcome.is_none());
            let id = id.map(|made| made.id.clone()).unwrap_or_default();
            functions.answered(&id, &outcome, 0);
            functions.ask(&format!("n{number}"), "check", &none, 0);
        }
        assert!(functions.invocations.len() <= REMEMBERED_MAX);
        assert!(functions.bytes() <= REMEMBERED_BYTES + outcome.text().len());
    }

    #[test]
    fn a_session_that_takes_over_is_told_what_the_last_one_asked_for() {
        let mut functions = FunctionCalls::default();
        let none = Map::new();
        let outcome = ToolOutcome::success(json!({"minutes": 20}));
        assert_eq!(functions.ask("a", "check", &none, 0), call("a"));
        assert_eq!(functions.ask("b", "order", &none, 0), call("b"));
        functions.reopened();
        let late = AnsweredFunction::Late {
            name: "check".to_owned(),
            arguments: "{}".to_owned(),
        };
        assert_eq!(functions.answered("a", &outcome, 0), Some(late));
        // It may call again what is under way, even under the id that the last session used.
        let joined = functions.ask("b", "order", &none, 0);
        assert_eq!(joined, FunctionDecision::Joined);
        assert_eq!(functions.answered("b", &outcome, 0), wanted(&["b"]));
    }
}
