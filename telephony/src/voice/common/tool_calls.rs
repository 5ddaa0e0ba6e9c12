//! The model's tool calls and their outcomes.
//!
//! The call's task sees each call once. A resumed model may not remember a call and repeat it. A repeat with the same name and
//! arguments gets the known outcome, or waits for the one under way. The same holds for a call that the model cancelled, so that
//! a cough of the caller does not order something twice.

use std::{collections::HashSet, time::Duration};

use serde_json::{Map, Value};

use crate::voice::{ToolOutcome, VoiceEvent};

/// The longest time without audio for a model that waits for a function.
const GATED: Duration = Duration::from_secs(10);
/// The time in which an outcome answers the same question.
const KEPT: Duration = Duration::from_secs(120);
/// Calls that are remembered.
const MOST: usize = 64;
/// Bytes of their ids, names, arguments and outcomes that are remembered.
const BYTES_MOST: usize = 1024 * 1024;
/// The longest id that the service accepts.
const ID_MOST: usize = 64;
/// Ids that are remembered as used; afterwards ids are numbered.
const IDS_MOST: usize = 1024;
/// Bytes of a tool call's name and arguments. The service accepts no more arguments.
const TOOL_BYTES_MOST: usize = 64 * 1024;
/// The longest id of a tool call, in bytes.
const TOOL_ID_BYTES_MOST: usize = 1024;
/// Tool calls that a model may make at once.
const TOOLS_AT_ONCE: u32 = 32;
/// Tool calls above those that are answered with an error. A model that makes more than these has no pauses.
const REFUSED_AT_ONCE: u32 = 32;
/// The time for each further tool call, carried out or refused.
const TOOL_EVERY: Duration = Duration::from_millis(200);

/// A tool call as the model requests it.
#[derive(Debug, Clone, Default)]
pub(in crate::voice) struct RequestedCall {
    pub id: Option<String>,
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// A request that is no legitimate one.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::voice) enum ToolRequestFault {
    /// The id is too long to be repeated in an answer.
    Unreadable,
    /// The model calls functions without a pause.
    TooMany,
}

/// A tool call that is remembered.
#[derive(Debug)]
struct ToolRequest {
    id: String,
    name: String,
    /// As JSON, which takes less memory than the values.
    arguments: String,
    /// The session of the first request.
    session: u32,
    /// The time of the first request.
    since: Duration,
    /// The connection of the last request.
    connection: u32,
    wires: Vec<Wire>,
    cancelled: bool,
    outcome: Option<Outcome>,
    /// It was not carried out, so its outcome answers no later request.
    is_refused: bool,
    delivered: bool,
}

impl ToolRequest {
    fn has(&self, connection: u32, id: &str) -> bool {
        let mut wires = self.wires.iter();
        wires.any(|wire| wire.connection == connection && wire.id.as_deref() == Some(id))
    }
}

/// One request for the call.
#[derive(Debug)]
struct Wire {
    connection: u32,
    id: Option<String>,
    at: Duration,
    open: bool,
}

#[derive(Debug)]
struct Outcome {
    at: Duration,
    given: ToolOutcome,
}

/// The meaning of a request.
#[derive(Debug, PartialEq, Eq)]
enum RequestMeaning {
    /// A new call, to be carried out under this id.
    New(String),
    /// A repeated call: its outcome is known, or under way.
    Again,
}

/// An outcome on its way to the model.
#[derive(Debug, PartialEq)]
pub(in crate::voice) struct ToolAnswer {
    pub name: String,
    pub arguments: String,
    pub outcome: ToolOutcome,
    pub to: AnswerTarget,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::voice) enum AnswerTarget {
    /// Requested on this connection, by this id.
    Here(Option<String>),
    /// Requested on an earlier connection.
    Earlier {
        id: Option<String>,
        session: u32,
        since: Duration,
    },
}

#[derive(Debug, Default)]
pub(in crate::voice) struct ToolCalls {
    asks: Vec<ToolRequest>,
    ids: HashSet<String>,
    made: u64,
    carried_out: CallRate,
    refused: CallRate,
}

/// A token bucket over all connections of the session: a model that is answered at once could call for ever.
#[derive(Debug, Default)]
struct CallRate {
    /// The end of the time that past requests have used up.
    paid_until: Duration,
}

impl CallRate {
    fn admit(&mut self, at_once: u32, now: Duration) -> bool {
        let next = self.paid_until.max(now) + TOOL_EVERY;
        let is_admitted = next <= now + TOOL_EVERY * at_once;
        if is_admitted {
            self.paid_until = next;
        }
        is_admitted
    }
}

impl ToolCalls {
    /// Handles a request of the model. Returns the call's event if it is a new one.
    pub(in crate::voice) fn request(
        &mut self,
        mut call: RequestedCall,
        connection: u32,
        session: u32,
        now: Duration,
    ) -> Result<Option<VoiceEvent>, ToolRequestFault> {
        let id = call.id.as_ref();
        if id.is_some_and(|id| id.len() > TOOL_ID_BYTES_MOST) {
            return Err(ToolRequestFault::Unreadable);
        }
        if self.is_repeat(&call, connection) {
            return Ok(None);
        }
        let is_refused = !self.carried_out.admit(TOOLS_AT_ONCE, now);
        if is_refused && !self.refused.admit(REFUSED_AT_ONCE, now) {
            return Err(ToolRequestFault::TooMany);
        }
        let arguments = Value::Object(call.arguments.clone()).to_string();
        let is_too_large = call.name.len() + arguments.len() > TOOL_BYTES_MOST;
        if is_too_large {
            call.name = call.name.chars().take(64).collect();
            call.arguments.clear();
        }
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        Ok(match self.asked(call, connection, session, now) {
            RequestMeaning::New(id) if is_too_large => {
                let outcome = ToolOutcome::failure("too_large", "Arguments have at most 64 KiB.");
                self.refuse(&id, outcome, now);
                None
            }
            RequestMeaning::New(id) if is_refused => {
                let words = "Call at most 32 functions at once, and five more each second.";
                self.refuse(&id, ToolOutcome::failure("too_many_calls", words), now);
                None
            }
            RequestMeaning::New(id) => Some(VoiceEvent::Tool {
                id,
                name,
                arguments,
            }),
            RequestMeaning::Again => None,
        })
    }

    fn asked(
        &mut self,
        call: RequestedCall,
        connection: u32,
        session: u32,
        now: Duration,
    ) -> RequestMeaning {
        let wire = Wire {
            connection,
            id: call.id.filter(|id| !id.is_empty()),
            at: now,
            open: true,
        };
        let arguments = Value::Object(call.arguments).to_string();
        let again = self.asks.iter_mut().rev().find(|ask| {
            let kept = ask.outcome.as_ref().is_none_or(|it| now - it.at <= KEPT);
            ask.name == call.name
                && ask.arguments == arguments
                && !ask.is_refused
                && (ask.connection != connection || ask.cancelled)
                && kept
        });
        if let Some(ask) = again {
            ask.wires.retain(|wire| wire.open);
            ask.wires.push(wire);
            ask.connection = connection;
            ask.cancelled = false;
            ask.delivered = false;
            return RequestMeaning::Again;
        }
        let id = self.new_id(wire.id.as_deref());
        self.asks.push(ToolRequest {
            id: id.clone(),
            name: call.name,
            arguments,
            session,
            since: now,
            connection,
            wires: vec![wire],
            cancelled: false,
            outcome: None,
            is_refused: false,
            delivered: false,
        });
        while self.asks.len() > MOST || self.bytes() > BYTES_MOST {
            let delivered = self.asks.iter().position(|ask| ask.delivered);
            let known = || self.asks.iter().position(|ask| ask.outcome.is_some());
            let done = delivered.or_else(known).unwrap_or_default();
            self.asks.remove(done);
        }
        RequestMeaning::New(id)
    }

    /// Bytes of the remembered ids, names, arguments and outcomes.
    pub(in crate::voice) fn bytes(&self) -> usize {
        let outcome = |ask: &ToolRequest| {
            let outcome = ask.outcome.as_ref();
            outcome.map_or(0, |outcome| outcome.given.text().len())
        };
        let ids = |ask: &ToolRequest| -> usize {
            let ids = ask.wires.iter().filter_map(|wire| wire.id.as_ref());
            ids.map(String::len).sum()
        };
        let of = |ask| ids(ask) + ask.name.len() + ask.arguments.len() + outcome(ask);
        self.asks.iter().map(of).sum()
    }

    /// True if this call was made on this connection. Some servers number the calls of each answer anew, so an id alone says
    /// nothing.
    fn is_repeat(&self, call: &RequestedCall, connection: u32) -> bool {
        let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) else {
            return false;
        };
        let arguments = Value::Object(call.arguments.clone()).to_string();
        let mut same = self.asks.iter().filter(|ask| ask.name == call.name);
        same.any(|ask| ask.arguments == arguments && ask.has(connection, id))
    }

    fn refuse(&mut self, id: &str, outcome: ToolOutcome, now: Duration) {
        self.came(id, outcome, now);
        for ask in self.asks.iter_mut().filter(|ask| ask.id == id) {
            ask.is_refused = true;
        }
    }

    /// The model's own id if it is acceptable and unique, else a numbered one.
    fn new_id(&mut self, given: Option<&str>) -> String {
        self.made += 1;
        let fits = |id: &&str| !id.is_empty() && id.len() <= ID_MOST && !self.ids.contains(*id);
        let full = self.ids.len() >= IDS_MOST;
        let id = match given.filter(fits) {
            Some(id) if !full => id.to_owned(),
            _ => {
                while self.ids.contains(&format!("function-{}", self.made)) {
                    self.made += 1;
                }
                format!("function-{}", self.made)
            }
        };
        if !full {
            self.ids.insert(id.clone());
        }
        id
    }

    /// Stores an outcome. False if nothing waits for it.
    pub(in crate::voice) fn came(&mut self, id: &str, outcome: ToolOutcome, now: Duration) -> bool {
        let open = |ask: &&mut ToolRequest| ask.id == id && ask.outcome.is_none();
        let Some(ask) = self.asks.iter_mut().find(open) else {
            return false;
        };
        ask.outcome = Some(Outcome {
            at: now,
            given: outcome,
        });
        true
    }

    /// Cancels calls. Returns the ids by which the call's task knows them.
    pub(in crate::voice) fn cancel(&mut self, ids: &[String], connection: u32) -> Vec<String> {
        let mut cancelled = Vec::new();
        for ask in &mut self.asks {
            let meant = |wire: &&mut Wire| {
                wire.open
                    && wire.connection == connection
                    && wire.id.as_ref().is_some_and(|id| ids.contains(id))
            };
            let mut found = false;
            for wire in ask.wires.iter_mut().filter(meant) {
                wire.open = false;
                found = true;
            }
            if found {
                ask.cancelled = true;
                cancelled.push(ask.id.clone());
            }
        }
        cancelled
    }

    /// Takes the outcomes that can be sent on this connection and were not sent yet.
    pub(in crate::voice) fn answers(&mut self, connection: u32) -> Vec<ToolAnswer> {
        let mut answers = Vec::new();
        for ask in &mut self.asks {
            let Some(outcome) = ask.outcome.as_ref().filter(|_| !ask.delivered) else {
                continue;
            };
            ask.delivered = true;
            let answer = |to| ToolAnswer {
                name: ask.name.clone(),
                arguments: ask.arguments.clone(),
                outcome: outcome.given.clone(),
                to,
            };
            let mut here = false;
            for wire in ask.wires.iter_mut().filter(|wire| wire.open) {
                if wire.connection == connection {
                    wire.open = false;
                    here = true;
                    answers.push(answer(AnswerTarget::Here(wire.id.clone())));
                }
            }
            if !here
                && !ask.cancelled
                && let Some(wire) = ask.wires.last()
            {
                answers.push(answer(AnswerTarget::Earlier {
                    id: wire.id.clone(),
                    session: ask.session,
                    since: ask.since,
                }));
            }
            ask.wires.iter_mut().for_each(|wire| wire.open = false);
        }
        answers
    }

    /// Until when a model that waits for functions may get no realtime input.
    pub(in crate::voice) fn gated_until(&self, connection: u32, now: Duration) -> Option<Duration> {
        let wires = self.asks.iter().flat_map(|ask| &ask.wires);
        wires
            .filter(|wire| wire.open && wire.connection == connection)
            .map(|wire| wire.at + GATED)
            .filter(|until| now < *until)
            .max()
    }

    /// The model waits for an outcome on this connection.
    pub(in crate::voice) fn open(&self, connection: u32) -> bool {
        let mut wires = self.asks.iter().flat_map(|ask| &ask.wires);
        wires.any(|wire| wire.open && wire.connection == connection)
    }
}

#[cfg(test)]
mod tests;
