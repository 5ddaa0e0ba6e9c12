//! Everything that was acknowledged to clients, for the checker.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A call as its bridge knows it.
#[derive(Clone, Debug)]
pub struct AcknowledgedCall {
    pub tenant: usize,
    pub bridge_call: String,
    /// From answer to end, by the bridge's times.
    pub talk_seconds: i64,
    pub answered: FinalAnswer,
    /// Result of the function that the AI invoked.
    pub called: FinalAnswer,
    pub told: FinalAnswer,
    pub ended: FinalAnswer,
}

/// The final answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalAnswer {
    /// Not answered yet, or not sent.
    None,
    Ok,
    /// `invalid_transition`: the call's state does not allow it.
    Refused,
    /// `unknown_call`: an acknowledged call is lost.
    Lost,
}

impl AcknowledgedCall {
    /// The call's cost in minutes.
    pub fn costs(&self) -> i64 {
        match self.answered {
            FinalAnswer::Ok => {
                self.talk_seconds.div_euclid(60) + i64::from(self.talk_seconds % 60 > 0)
            }
            _ => 0,
        }
    }

    pub fn status(&self) -> &'static str {
        if self.answered == FinalAnswer::Ok {
            "ended"
        } else {
            "dropped"
        }
    }

    /// The event kinds that the tenant receives.
    pub fn announced(&self) -> BTreeSet<&'static str> {
        let mut kinds = BTreeSet::from(["call.started"]);
        for (reply, kind) in [
            (self.answered, "call.answered"),
            (self.called, "function.called"),
            (self.told, "call.transcript"),
            (self.ended, "call.ended"),
        ] {
            if reply == FinalAnswer::Ok {
                kinds.insert(kind);
            }
        }
        kinds
    }
}

/// An agent that a tenant created.
#[derive(Clone, Debug)]
pub struct CreatedAgent {
    pub tenant: usize,
    pub name: String,
    pub deleted: bool,
}

#[derive(Debug, Default)]
pub struct Journal {
    pub calls: RefCell<BTreeMap<String, AcknowledgedCall>>,
    pub agents: RefCell<BTreeMap<String, CreatedAgent>>,
    /// Outcomes of functions as the bridges received them, by call; a call invokes one.
    pub outcomes: RefCell<BTreeMap<String, Value>>,
    /// Acknowledgements: time, and latency since the first transmission.
    answers: RefCell<Vec<(Instant, Duration)>>,
    /// Messages without an answer: the socket closed, or the reply took too long.
    pub broken: Cell<usize>,
    /// Requests that timed out.
    pub slow_requests: Cell<usize>,
    /// Requests that were accepted but not answered, with the error.
    pub broken_requests: RefCell<Vec<String>>,
    /// Requests whose connection was refused.
    pub nobody_there: Cell<usize>,
    /// Requests and messages that were refused temporarily and repeated.
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

    /// Updates a call's entry.
    pub fn note(&self, call: &str, change: impl FnOnce(&mut AcknowledgedCall)) {
        change(self.calls.borrow_mut().get_mut(call).unwrap());
    }

    /// Records a call of which only the end matters, as the service shows it.
    pub fn note_ended(&self, call: &str, tenant: usize, bridge_call: &str, over: &Value) {
        let entry = AcknowledgedCall {
            tenant,
            bridge_call: bridge_call.to_owned(),
            talk_seconds: over["talkTimeSeconds"].as_i64().unwrap(),
            answered: FinalAnswer::Ok,
            called: FinalAnswer::None,
            told: FinalAnswer::None,
            ended: FinalAnswer::Ok,
        };
        self.calls.borrow_mut().insert(call.to_owned(), entry);
    }

    /// The time from `moment` to the next acknowledgement.
    pub fn first_after(&self, moment: Instant) -> Option<Duration> {
        let answers = self.answers.borrow();
        let after = answers.iter().filter(|(at, _)| *at > moment);
        after.map(|(at, _)| *at - moment).min()
    }

    pub fn acknowledgements(&self) -> usize {
        self.answers.borrow().len()
    }

    /// The longest latency.
    pub fn longest(&self) -> Duration {
        let answers = self.answers.borrow();
        answers
            .iter()
            .map(|(_, took)| *took)
            .max()
            .unwrap_or_default()
    }

    /// The figures in one line.
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
