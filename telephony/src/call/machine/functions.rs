//! Functions that the model wants: each is called once, however often the model asks after it has lost its memory.
//!
//! A connection to a model that is made again may ask again for what it had asked for: the same name and arguments then get what
//! came of the first for a while, as do those that the model cancelled and wants after all. Asked twice over one connection, or once
//! more after that while, a function is called twice: things change.

use serde_json::{Map, Value};

/// Functions of a call that may be under way at the engine.
const RUNNING_MAX: usize = 32;
/// Those that are remembered.
const REMEMBERED_MAX: usize = 64;
/// How long what came of a function answers the same question.
const KEPT_MS: u64 = 120_000;
/// The longest id that the engine takes.
const ID_CHARS_MAX: usize = 64;

/// What the model gets: `{"output": …}` or `{"error": …}`.
pub(super) type Answer = Map<String, Value>;

#[derive(Debug, Default)]
pub(super) struct Functions {
    invocations: Vec<Invocation>,
    /// How often the model's connection was made again.
    connections: u64,
    asked: u64,
}

#[derive(Debug)]
struct Invocation {
    id: String,
    name: String,
    arguments: Map<String, Value>,
    /// The ids under which the model waits for it, or has waited.
    waiting: Vec<String>,
    connection: u64,
    is_cancelled: bool,
    /// With when it came.
    answer: Option<(u64, Answer)>,
}

/// What is to be done for a function that is wanted.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// It is to be called, under this id.
    Call { invocation_id: String },
    /// This came of it before.
    Kept(Answer),
    /// It is under way.
    Joined,
    /// Too many are under way.
    TooMany,
}

impl Functions {
    pub(super) fn reconnected(&mut self) {
        self.connections += 1;
    }

    pub(super) fn ask(
        &mut self,
        tool: &str,
        name: &str,
        arguments: &Map<String, Value>,
        now_ms: u64,
    ) -> Asked {
        let connection = self.connections;
        let same = self.invocations.iter_mut().rev().find(|made| {
            let is_repeat =
                made.connection == connection && made.waiting.iter().any(|waiting| waiting == tool);
            let answered = made.answer.as_ref().map(|(at, _)| *at);
            let is_kept = answered.is_none_or(|at| now_ms.saturating_sub(at) <= KEPT_MS);
            let is_wanted_again = made.is_cancelled || made.connection < connection;
            made.name == name
                && made.arguments == *arguments
                && (is_repeat || is_kept && is_wanted_again)
        });
        if let Some(made) = same {
            made.connection = connection;
            made.is_cancelled = false;
            if !made.waiting.iter().any(|waiting| waiting == tool) {
                made.waiting.push(tool.to_owned());
            }
            let kept = made.answer.as_ref().map(|(_, answer)| answer.clone());
            return kept.map_or(Asked::Joined, Asked::Kept);
        }
        let running = self.invocations.iter().filter(|made| made.answer.is_none());
        if running.count() >= RUNNING_MAX {
            return Asked::TooMany;
        }
        if self.invocations.len() >= REMEMBERED_MAX
            && let Some(oldest) = self
                .invocations
                .iter()
                .position(|made| made.answer.is_some())
        {
            self.invocations.remove(oldest);
        }
        let invocation_id = self.new_id(tool);
        self.invocations.push(Invocation {
            id: invocation_id.clone(),
            name: name.to_owned(),
            arguments: arguments.clone(),
            waiting: vec![tool.to_owned()],
            connection,
            is_cancelled: false,
            answer: None,
        });
        Asked::Call { invocation_id }
    }

    /// The model's id for the first call under it; its ids may begin anew with a connection, and the engine takes a repeat for the
    /// same call.
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

    /// Keeps what came of a function, and gives the ids that wait for it.
    pub(super) fn answered(
        &mut self,
        invocation_id: &str,
        answer: &Answer,
        now_ms: u64,
    ) -> Vec<String> {
        let made = self
            .invocations
            .iter_mut()
            .find(|made| made.id == invocation_id && made.answer.is_none());
        let Some(made) = made else {
            return Vec::new();
        };
        made.answer = Some((now_ms, answer.clone()));
        made.waiting.clone()
    }

    /// The model wants no answer under these ids. The voice gets it all the same, and knows what to do with it.
    pub(super) fn cancel(&mut self, tools: &[String]) {
        for made in &mut self.invocations {
            let waiting = &made.waiting;
            made.is_cancelled |= waiting.iter().all(|waiting| tools.contains(waiting));
        }
    }

    /// The name of what was called under this id.
    pub(super) fn name_of(&self, invocation_id: &str) -> Option<&str> {
        let mut made = self.invocations.iter();
        let made = made.find(|made| made.id == invocation_id)?;
        Some(&made.name)
    }
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

    fn call(id: &str) -> Asked {
        Asked::Call {
            invocation_id: id.to_owned(),
        }
    }

    #[test]
    fn after_a_reconnection_the_same_wish_gets_what_came_of_the_first() {
        let mut functions = Functions::default();
        let arguments = object(json!({"orderId": "1"}));
        let answer = object(json!({"output": {"minutes": 20}}));
        assert_eq!(functions.ask("a", "check", &arguments, 0), call("a"));
        assert_eq!(functions.answered("a", &answer, 0), ["a"]);
        functions.reconnected();
        let kept = functions.ask("b", "check", &arguments, 0);
        assert_eq!(kept, Asked::Kept(answer));
        // Once more over the same connection is a new wish.
        assert_eq!(functions.ask("c", "check", &arguments, 0), call("c~2"));
        let others = object(json!({"orderId": "2"}));
        assert_eq!(functions.ask("d", "check", &others, 0), call("d~3"));
    }

    #[test]
    fn what_came_of_a_function_is_kept_for_two_minutes() {
        let mut functions = Functions::default();
        let none = Map::new();
        let answer = object(json!({"output": {"minutes": 20}}));
        assert_eq!(functions.ask("a", "check", &none, 0), call("a"));
        // It took its time: what counts is when the answer came.
        assert_eq!(functions.answered("a", &answer, 60_000), ["a"]);
        functions.reconnected();
        let kept = || Asked::Kept(answer.clone());
        assert_eq!(functions.ask("b", "check", &none, 180_000), kept());
        functions.reconnected();
        assert_eq!(functions.ask("c", "check", &none, 180_001), call("c~2"));
        // The newest counts from now on, and one that is under way for however long.
        functions.reconnected();
        let joined = functions.ask("d", "check", &none, 900_000);
        assert_eq!(joined, Asked::Joined);
        // A model that cancelled and asks much later means it anew, too.
        let answered = functions.answered("c~2", &answer, 900_000);
        assert_eq!(answered, ["c", "d"]);
        functions.cancel(&["c".to_owned(), "d".to_owned()]);
        assert_eq!(functions.ask("e", "check", &none, 1_020_001), call("e~3"));
        // The same word once more is no new wish, whenever it comes.
        assert_eq!(functions.answered("e~3", &answer, 1_020_001), ["e"]);
        assert_eq!(functions.ask("e", "check", &none, 9_000_000), kept());
    }

    #[test]
    fn one_under_way_is_joined_and_answered_to_all_who_wait() {
        let mut functions = Functions::default();
        let none = Map::new();
        let answer = object(json!({"output": {"done": true}}));
        assert_eq!(functions.ask("a", "check", &none, 0), call("a"));
        assert_eq!(functions.ask("a", "check", &none, 0), Asked::Joined);
        functions.reconnected();
        assert_eq!(functions.ask("b", "check", &none, 0), Asked::Joined);
        assert_eq!(functions.answered("a", &answer, 0), ["a", "b"]);
        assert!(functions.answered("a", &answer, 0).is_empty());
    }

    #[test]
    fn an_id_that_is_used_anew_is_another_call() {
        let mut functions = Functions::default();
        let none = Map::new();
        assert_eq!(functions.ask("1", "check", &none, 0), call("1"));
        assert_eq!(functions.ask("1", "order", &none, 0), call("1~2"));
        let long = "x".repeat(100);
        let Asked::Call { invocation_id } = functions.ask(&long, "check", &none, 0) else {
            panic!("it is called");
        };
        assert!(invocation_id.len() <= ID_CHARS_MAX);
    }

    #[test]
    fn a_cancelled_call_is_not_made_again() {
        let mut functions = Functions::default();
        let none = Map::new();
        let answer = object(json!({"output": {"done": true}}));
        assert_eq!(functions.ask("a", "order", &none, 0), call("a"));
        functions.cancel(&["a".to_owned()]);
        assert_eq!(functions.answered("a", &answer, 0), ["a"]);
        assert_eq!(functions.ask("b", "order", &none, 0), Asked::Kept(answer));
    }

    #[test]
    fn neither_those_under_way_nor_the_memory_grow_without_bound() {
        let mut functions = Functions::default();
        let none = Map::new();
        for number in 0..RUNNING_MAX {
            let id = number.to_string();
            assert_eq!(functions.ask(&id, "check", &none, 0), call(&id));
        }
        assert_eq!(functions.ask("more", "check", &none, 0), Asked::TooMany);
        for number in 0..500 {
            let id = functions
                .invocations
                .iter()
                .find(|made| made.answer.is_none());
            let id = id.map(|made| made.id.clone()).unwrap_or_default();
            functions.answered(&id, &Map::new(), 0);
            functions.ask(&format!("n{number}"), "check", &none, 0);
        }
        assert!(functions.invocations.len() <= REMEMBERED_MAX);
    }
}
