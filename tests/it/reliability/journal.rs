//! What was acknowledged to those who drive the service: all that the checker holds against what is left afterwards.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::{Duration, Instant},
};

use serde_json::Value;

/// One call as its bridge knows it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub tenant: usize,
    pub bridge_call: String,
    /// From answer to end, as the bridge says.
    pub talk_seconds: i64,
    pub answered: Reply,
    /// What became of the function that the AI called.
    pub called: Reply,
    pub told: Reply,
    pub ended: Reply,
}

/// How a message was answered in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Not yet, or it was not sent.
    None,
    Ok,
    /// `invalid_transition`: the call's state does not allow it.
    Refused,
    /// `unknown_call`: what was acknowledged is lost.
    Lost,
}

impl Entry {
    /// What the call costs in minutes.
    pub fn costs(&self) -> i64 {
        match self.answered {
            Reply::Ok => self.talk_seconds.div_euclid(60) + i64::from(self.talk_seconds % 60 > 0),
            _ => 0,
        }
    }

    pub fn status(&self) -> &'static str {
        if self.answered == Reply::Ok {
            "ended"
        } else {
            "dropped"
        }
    }

    /// What its tenant hears of it.
    pub fn announced(&self) -> BTreeSet<&'static str> {
        let mut kinds = BTreeSet::from(["call.started"]);
        for (reply, kind) in [
            (self.answered, "call.answered"),
            (self.called, "function.called"),
            (self.told, "call.transcript"),
            (self.ended, "call.ended"),
        ] {
            if reply == Reply::Ok {
                kinds.insert(kind);
            }
        }
        kinds
    }
}

/// An agent that a tenant made.
#[derive(Clone, Debug)]
pub struct Made {
    pub tenant: usize,
    pub name: String,
    pub deleted: bool,
}

#[derive(Debug, Default)]
pub struct Journal {
    pub calls: RefCell<BTreeMap<String, Entry>>,
    pub agents: RefCell<BTreeMap<String, Made>>,
    /// The outcomes of functions that bridges were told, by call: a call calls one.
    pub outcomes: RefCell<BTreeMap<String, Value>>,
    /// Acknowledgements: when, and how long it took from the first time that it was said.
    answers: RefCell<Vec<(Instant, Duration)>>,
    /// Messages that were not answered: their socket ended, or they took too long.
    pub broken: Cell<usize>,
    /// Requests that were not answered in time.
    pub slow_requests: Cell<usize>,
    /// Requests that were taken and not answered, with how that looked.
    pub broken_requests: RefCell<Vec<String>>,
    /// Requests that nobody took.
    pub nobody_there: Cell<usize>,
    /// Requests and messages that were refused in words, and said again.
    pub refused: Cell<usize>,
}

impl Journal {
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    pub fn acknowledged(&self, began: Instant) {
        let now = Instant::now();
        self.answers.borrow_mut().push((now, now - began));
    }

    pub fn count(counter: &Cell<usize>) {
        counter.set(counter.get() + 1);
    }

    /// Changes what is known of a call.
    pub fn note(&self, call: &str, change: impl FnOnce(&mut Entry)) {
        change(self.calls.borrow_mut().get_mut(call).unwrap());
    }

    /// A call of which only its end is of interest, as the service shows it.
    pub fn note_ended(&self, call: &str, tenant: usize, bridge_call: &str, over: &Value) {
        let entry = Entry {
            tenant,
            bridge_call: bridge_call.to_owned(),
            talk_seconds: over["talkTimeSeconds"].as_i64().unwrap(),
            answered: Reply::Ok,
            called: Reply::None,
            told: Reply::None,
            ended: Reply::Ok,
        };
        self.calls.borrow_mut().insert(call.to_owned(), entry);
    }

    /// The first acknowledgement after a moment came so much later.
    pub fn first_after(&self, moment: Instant) -> Option<Duration> {
        let answers = self.answers.borrow();
        let after = answers.iter().filter(|(at, _)| *at > moment);
        after.map(|(at, _)| *at - moment).min()
    }

    pub fn acknowledgements(&self) -> usize {
        self.answers.borrow().len()
    }

    /// How long the longest of all waited.
    pub fn longest(&self) -> Duration {
        let answers = self.answers.borrow();
        answers
            .iter()
            .map(|(_, took)| *took)
            .max()
            .unwrap_or_default()
    }

    /// One line of figures.
    pub fn figures(&self) -> String {
        format!(
            "{} calls with {} functions, and {} agents in {} acknowledgements; {} refused in words, {} messages not answered, {} requests not in \
             time, {} broken, {} that nobody took, all said again; the longest waited {:.1?}",
            self.calls.borrow().len(),
            self.outcomes.borrow().len(),
            self.agents.borrow().len(),
            self.acknowledgements(),
            self.refused.get(),
            self.broken.get(),
            self.slow_requests.get(),
            self.broken_requests.borrow().len(),
            self.nobody_there.get(),
            self.longest(),
        )
    }
}
