//! The connection in use, and the change to the next one.
//!
//! A connection lives for about ten minutes. Before the service closes it, it sends `goAway`. Then the next socket is opened at
//! once. The session moves to it when nothing is under way, or shortly before the time is over. The old socket is closed first,
//! because a session is not resumed while another socket has it (1011; aicc2025/sip-to-ai#14, seen with the service in September
//! 2026).

use std::time::Duration;

use super::{super::setup::Beginning, Closure, Effect, Machine};
use crate::voice::Heard;

/// The longest time of a call without a model.
const AWAY: Duration = Duration::from_secs(8);
/// A shorter time without a model is not reported.
const UNNOTICED: Duration = Duration::from_millis(300);
/// Time limit for opening a socket, once the call has had a connection.
const ATTEMPT: Duration = Duration::from_secs(4);
/// Backoff between failed attempts, in ms; the last value repeats.
const PAUSES: [u64; 4] = [100, 300, 600, 1_000];
/// A connection that lasted this long is no failure when it ends (Pipecat, October 2025); nor is one that brought anything.
const STABLE: Duration = Duration::from_secs(10);
/// If two connections in a row ended this soon, or got `goAway`, the next is opened after a delay.
const BRIEF: Duration = Duration::from_secs(1);
/// This many useless connections in a row, or refused setups, end the session.
const FAILURES: u32 = 3;
/// Attempts with a handle before a fresh session is begun.
const RESUMPTIONS: u32 = 2;
/// Time limit for closing the old socket before the new one is set up.
const CLOSING: Duration = Duration::from_millis(100);
/// Reserve of the time left.
const MARGIN: Duration = Duration::from_secs(2);
/// Pause before the next socket is tried again while the old connection lives.
const NEXT: Duration = Duration::from_millis(500);

/// The state of the connection.
#[derive(Debug)]
pub(super) enum Link {
    Waiting {
        until: Duration,
    },
    Opening {
        connection: u32,
        until: Duration,
    },
    /// The next socket is open, and the old one is being closed.
    Yielding {
        connection: u32,
        old: u32,
        until: Duration,
    },
    SettingUp {
        connection: u32,
        resumed: bool,
    },
    Live {
        connection: u32,
        since: Duration,
        /// It brought speech or a tool call, or can be resumed.
        is_of_use: bool,
        leaving: Option<Leaving>,
    },
    Over,
}

/// A connection that the service will close.
#[derive(Debug)]
pub(super) struct Leaving {
    by: Duration,
    next: Next,
}

/// The socket that takes over.
#[derive(Debug, Clone, Copy)]
enum Next {
    Waiting { until: Duration },
    Opening(u32),
    Open(u32),
}

/// Consecutive failures.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Since when there is no model; `None` counts from the beginning of the session.
    away: Option<Duration>,
    told: bool,
    attempts: usize,
    brief: usize,
    useless: u32,
    refusals: u32,
    resumptions: u32,
    words: String,
}

impl Failures {
    /// Records how long a connection lasted until it ended or got `goAway`.
    fn lasted(&mut self, lasted: Duration) {
        self.brief = if lasted < BRIEF { self.brief + 1 } else { 0 };
    }

    /// The delay before the next one.
    fn pause(&self) -> Duration {
        Duration::from_millis(match self.brief {
            0 | 1 => 0,
            brief => PAUSES[(brief - 2).min(PAUSES.len() - 1)],
        })
    }
}

impl Link {
    pub(super) fn first() -> Self {
        Self::Waiting {
            until: Duration::ZERO,
        }
    }
}

impl Machine {
    /// The connection on which messages can be sent.
    pub(super) fn live(&self) -> Option<u32> {
        match self.link {
            Link::Live { connection, .. } => Some(connection),
            _ => None,
        }
    }

    pub(super) fn link_due(&self) -> Option<Duration> {
        let since = self.failures.away.unwrap_or_default();
        let away = since + AWAY;
        match &self.link {
            Link::Waiting { until }
            | Link::Opening { until, .. }
            | Link::Yielding { until, .. } => Some((*until).min(away)),
            Link::SettingUp { .. } if self.ready && !self.failures.told => Some(since + UNNOTICED),
            Link::SettingUp { .. } => Some(away),
            Link::Live { leaving, .. } => match leaving.as_ref()?.next {
                Next::Waiting { until } => Some(until),
                Next::Opening(_) => None,
                Next::Open(_) => leaving.as_ref().map(|leaving| leaving.by),
            },
            Link::Over => None,
        }
    }

    /// Handles expired deadlines.
    pub(super) fn link_time(&mut self) {
        let since = self.failures.away.unwrap_or_default();
        if self.live().is_none() && self.now >= since + AWAY {
            let words = match self.failures.words.as_str() {
                "" => "no model answered within 8 s".to_owned(),
                words => format!("no model for 8 s: {words}"),
            };
            return self.lost(words);
        }
        match self.link {
            Link::Waiting { until } if self.now >= until => self.open(),
            Link::Yielding {
                connection, until, ..
            } if self.now >= until => self.set_up_on(connection),
            Link::Opening { connection, until } if self.now >= until => {
                self.give_up_connection(connection, "it took too long");
            }
            Link::SettingUp { .. } if self.now >= since + UNNOTICED => self.tell_away(),
            Link::Live {
                connection,
                leaving: Some(_),
                ..
            } => self.leave_now(connection),
            _ => {}
        }
    }

    fn open(&mut self) {
        let connection = self.next_socket();
        // The first connection may take all the time that there is.
        let patience = if self.ready { ATTEMPT } else { AWAY };
        self.link = Link::Opening {
            connection,
            until: self.now + patience,
        };
    }

    fn next_socket(&mut self) -> u32 {
        self.connections += 1;
        let connection = self.connections;
        self.effects.push(Effect::Open { connection });
        connection
    }

    /// A socket was opened.
    pub(super) fn opened(&mut self, opened: u32) {
        match &mut self.link {
            Link::Opening { connection, .. } if *connection == opened => self.set_up_on(opened),
            Link::Live {
                connection,
                leaving: Some(leaving),
                ..
            } if matches!(leaving.next, Next::Opening(next) if next == opened) => {
                leaving.next = Next::Open(opened);
                let old = *connection;
                self.leave_now(old);
            }
            Link::SettingUp { connection, .. }
            | Link::Yielding { connection, .. }
            | Link::Live { connection, .. }
                if *connection == opened => {}
            _ => self.close(opened),
        }
    }

    fn set_up_on(&mut self, connection: u32) {
        let handle = self.handle.as_ref();
        let before = self.transcript.record();
        let beginning = match handle {
            Some(handle) => Beginning::Resumed(&handle.text),
            None => Beginning::Fresh(&before),
        };
        let message = self.persona.setup(beginning);
        let resumed = handle.is_some();
        if !resumed {
            self.sessions += 1;
        }
        self.link = Link::SettingUp {
            connection,
            resumed,
        };
        self.send(connection, message);
    }

    /// The model has accepted the setup.
    pub(super) fn set_up(&mut self, by: u32) {
        let resumed = match self.link {
            Link::SettingUp {
                connection,
                resumed,
                ..
            } if connection == by => resumed,
            _ => return,
        };
        self.link = Link::Live {
            connection: by,
            since: self.now,
            is_of_use: false,
            leaving: None,
        };
        let Failures { brief, useless, .. } = self.failures;
        self.failures = Failures {
            brief,
            useless,
            ..Failures::default()
        };
        self.rubbish = 0;
        self.answering = false;
        self.half_sample = None;
        let first = !std::mem::replace(&mut self.ready, true);
        self.tell(if first {
            Heard::Ready
        } else {
            Heard::Reconnected
        });
        self.begin(by, !resumed);
    }

    /// The service announces that it will close the connection.
    pub(super) fn leave(&mut self, left: Duration) {
        let by = self.now + left.saturating_sub(MARGIN.min(left / 2));
        match &mut self.link {
            Link::Live {
                leaving: Some(leaving),
                ..
            } => leaving.by = leaving.by.min(by),
            Link::Live { leaving, since, .. } => {
                self.failures.lasted(self.now - *since);
                let until = self.now + self.failures.pause();
                *leaving = Some(Leaving {
                    by,
                    next: Next::Waiting { until },
                });
            }
            _ => {}
        }
    }

    /// Changes to the next socket if it is open and the moment is right; opens it if there is none.
    fn leave_now(&mut self, old: u32) {
        let settled = !self.answering
            && !self.tools.open(old)
            && self.handle.as_ref().is_some_and(|handle| handle.newest);
        let Link::Live {
            leaving: Some(leaving),
            ..
        } = &mut self.link
        else {
            return;
        };
        let due = settled || self.now >= leaving.by;
        match leaving.next {
            Next::Open(connection) if due => {
                self.failures.away = Some(self.now);
                self.link = Link::Yielding {
                    connection,
                    old,
                    until: self.now + CLOSING,
                };
                self.close(old);
            }
            Next::Waiting { until } if self.now >= until => {
                let connection = self.next_socket();
                if let Link::Live {
                    leaving: Some(leaving),
                    ..
                } = &mut self.link
                {
                    leaving.next = Next::Opening(connection);
                }
            }
            Next::Waiting { .. } | Next::Opening(_) | Next::Open(_) => {}
        }
    }

    /// A socket was closed, or could not be opened.
    pub(super) fn closed(&mut self, closed: u32, why: &Closure) {
        match &mut self.link {
            Link::Live {
                connection,
                since,
                is_of_use,
                leaving,
            } if *connection == closed => {
                let lasted = self.now - *since;
                let counts = !*is_of_use && lasted < STABLE;
                self.failures.useless = if counts { self.failures.useless + 1 } else { 0 };
                let leaving = leaving.take();
                // A connection with `goAway` was counted then.
                if leaving.is_none() {
                    self.failures.lasted(lasted);
                }
                self.connection_lost(leaving, why);
            }
            Link::Live {
                leaving: Some(leaving),
                ..
            } if matches!(leaving.next, Next::Opening(next) | Next::Open(next) if next == closed) =>
            {
                leaving.next = Next::Waiting {
                    until: self.now + NEXT,
                };
            }
            Link::Yielding {
                connection, old, ..
            } => {
                let (connection, old) = (*connection, *old);
                if old == closed {
                    self.set_up_on(connection);
                } else if connection == closed {
                    self.failed(why);
                }
            }
            Link::Opening { connection, .. } if *connection == closed => {
                self.refused_or_failed(why);
            }
            Link::SettingUp {
                connection,
                resumed,
                ..
            } if *connection == closed => {
                if *resumed {
                    self.resumption_failed(why);
                } else {
                    self.refused_or_failed(why);
                }
            }
            _ => {}
        }
    }

    /// The current connection brought something useful.
    pub(super) fn brought_something(&mut self) {
        if let Link::Live { is_of_use, .. } = &mut self.link {
            *is_of_use = true;
        }
    }

    fn connection_lost(&mut self, leaving: Option<Leaving>, why: &Closure) {
        self.doubt_lost();
        self.failures.away = Some(self.now);
        self.failures.words.clone_from(&why.words);
        match leaving.map(|leaving| leaving.next) {
            Some(Next::Open(connection)) => return self.set_up_on(connection),
            Some(Next::Opening(connection)) => {
                self.link = Link::Opening {
                    connection,
                    until: self.now + ATTEMPT,
                };
            }
            Some(Next::Waiting { .. }) | None => {
                self.link = Link::Waiting {
                    until: self.now + self.failures.pause(),
                };
            }
        }
        self.tell_away();
        if self.failures.useless >= FAILURES {
            return self.lost(format!(
                "{FAILURES} connections in a row brought nothing: {}",
                why.words
            ));
        }
        self.link_time();
    }

    fn resumption_failed(&mut self, why: &Closure) {
        self.failures.resumptions += 1;
        if why.refused || self.failures.resumptions >= RESUMPTIONS {
            self.handle = None;
        }
        if why.refused {
            self.failures.words.clone_from(&why.words);
            self.link = Link::Waiting { until: self.now };
            self.link_time();
        } else {
            self.failed(why);
        }
    }

    fn refused_or_failed(&mut self, why: &Closure) {
        if !why.refused {
            return self.failed(why);
        }
        // Each voice supports only some languages, and the list changes. The prompt names the language, too.
        if why.words.to_lowercase().contains("language") && self.persona.language_code().is_some() {
            self.persona.without_language = true;
            return self.failed(why);
        }
        self.failures.refusals += 1;
        if self.failures.refusals >= FAILURES {
            return self.lost(format!("the model refuses the session: {}", why.words));
        }
        self.failed(why);
    }

    /// Reports the lost model, once per loss and only after there was a model.
    fn tell_away(&mut self) {
        if self.ready && !std::mem::replace(&mut self.failures.told, true) {
            self.tell(Heard::Away);
        }
    }

    fn failed(&mut self, why: &Closure) {
        self.tell_away();
        let pause = PAUSES[self.failures.attempts.min(PAUSES.len() - 1)];
        self.failures.attempts += 1;
        self.failures.words.clone_from(&why.words);
        self.link = Link::Waiting {
            until: self.now + Duration::from_millis(pause),
        };
    }

    /// Closes a connection from this side, as if the other had closed it.
    pub(super) fn give_up_connection(&mut self, connection: u32, words: &str) {
        self.close(connection);
        let why = Closure {
            refused: false,
            words: words.to_owned(),
        };
        self.closed(connection, &why);
    }

    fn close(&mut self, connection: u32) {
        self.effects.push(Effect::Close { connection });
    }

    fn lost(&mut self, words: String) {
        let sockets = match &self.link {
            Link::Opening { connection, .. } | Link::SettingUp { connection, .. } => {
                vec![*connection]
            }
            Link::Yielding {
                connection, old, ..
            } => vec![*connection, *old],
            Link::Waiting { .. } | Link::Live { .. } | Link::Over => Vec::new(),
        };
        for connection in sockets {
            self.close(connection);
        }
        self.link = Link::Over;
        self.tell(Heard::Lost(words));
    }
}
