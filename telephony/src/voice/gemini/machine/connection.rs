//! The connection in use, and the change to the next one.
//!
//! A connection lives for about ten minutes. Before the service closes it, it sends `goAway`. Then the next socket is opened at
//! once. The session moves to it when nothing is under way, or shortly before the time is over. The old socket is closed first,
//! because a session is not resumed while another socket has it (1011; aicc2025/sip-to-ai#14, seen with the service in September
//! 2026).

use std::time::Duration;

use super::{super::setup::SessionStart, SessionMachine};
use crate::voice::{
    VoiceEvent,
    common::{ATTEMPT, AWAY, CloseReason, FAILURES, STABLE, SessionEffect, UNNOTICED},
};

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
pub(super) enum ConnectionState {
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
        /// It brought content or a tool call, or can be resumed.
        is_of_use: bool,
        /// It was resumed, and brought no content or tool call yet.
        is_unproven: bool,
        leaving: Option<ClosingConnection>,
    },
    Over,
}

/// A connection that the service will close.
#[derive(Debug)]
pub(super) struct ClosingConnection {
    by: Duration,
    next: NextSocket,
}

/// The socket that takes over.
#[derive(Debug, Clone, Copy)]
enum NextSocket {
    Waiting { until: Duration },
    Opening(u32),
    Open(u32),
}

impl ConnectionState {
    pub(super) fn first() -> Self {
        Self::Waiting {
            until: Duration::ZERO,
        }
    }
}

impl SessionMachine {
    /// The connection on which messages can be sent.
    pub(super) fn live(&self) -> Option<u32> {
        match self.link {
            ConnectionState::Live { connection, .. } => Some(connection),
            _ => None,
        }
    }

    pub(super) fn link_due(&self) -> Option<Duration> {
        let since = self.failures.away.unwrap_or_default();
        let away = since + AWAY;
        match &self.link {
            ConnectionState::Waiting { until }
            | ConnectionState::Opening { until, .. }
            | ConnectionState::Yielding { until, .. } => Some((*until).min(away)),
            ConnectionState::SettingUp { .. } if self.ready && !self.failures.told => {
                Some(since + UNNOTICED)
            }
            ConnectionState::SettingUp { .. } => Some(away),
            ConnectionState::Live { leaving, .. } => match leaving.as_ref()?.next {
                NextSocket::Waiting { until } => Some(until),
                NextSocket::Opening(_) => None,
                NextSocket::Open(_) => leaving.as_ref().map(|leaving| leaving.by),
            },
            ConnectionState::Over => None,
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
            ConnectionState::Waiting { until } if self.now >= until => self.open(),
            ConnectionState::Yielding {
                connection, until, ..
            } if self.now >= until => self.set_up_on(connection),
            ConnectionState::Opening { connection, until } if self.now >= until => {
                self.give_up_connection(connection, "it took too long");
            }
            ConnectionState::SettingUp { .. } if self.now >= since + UNNOTICED => self.tell_away(),
            ConnectionState::Live {
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
        self.link = ConnectionState::Opening {
            connection,
            until: self.now + patience,
        };
    }

    fn next_socket(&mut self) -> u32 {
        self.connections += 1;
        let connection = self.connections;
        self.effects.push(SessionEffect::Open { connection });
        connection
    }

    /// A socket was opened.
    pub(super) fn opened(&mut self, opened: u32) {
        match &mut self.link {
            ConnectionState::Opening { connection, .. } if *connection == opened => {
                self.set_up_on(opened)
            }
            ConnectionState::Live {
                connection,
                leaving: Some(leaving),
                ..
            } if matches!(leaving.next, NextSocket::Opening(next) if next == opened) => {
                leaving.next = NextSocket::Open(opened);
                let old = *connection;
                self.leave_now(old);
            }
            ConnectionState::SettingUp { connection, .. }
            | ConnectionState::Yielding { connection, .. }
            | ConnectionState::Live { connection, .. }
                if *connection == opened => {}
            _ => self.close(opened),
        }
    }

    fn set_up_on(&mut self, connection: u32) {
        let handle = self.handle.as_ref();
        let before = self.transcript.record();
        let beginning = match handle {
            Some(handle) => SessionStart::Resumed(&handle.text),
            None => SessionStart::Fresh(&before),
        };
        let message = self.session_settings.setup(beginning);
        let resumed = handle.is_some();
        if !resumed {
            self.sessions += 1;
        }
        self.link = ConnectionState::SettingUp {
            connection,
            resumed,
        };
        self.send(connection, message);
    }

    /// The model has accepted the setup.
    pub(super) fn set_up(&mut self, by: u32) {
        let resumed = match self.link {
            ConnectionState::SettingUp {
                connection,
                resumed,
                ..
            } if connection == by => resumed,
            _ => return,
        };
        self.link = ConnectionState::Live {
            connection: by,
            since: self.now,
            is_of_use: false,
            is_unproven: resumed,
            leaving: None,
        };
        self.failures.succeeded();
        self.rubbish = 0;
        self.answering = false;
        // All of the turn was heard, though its end was not told.
        if self.has_generated {
            self.turn_over();
        }
        let was_speaking = std::mem::take(&mut self.speaking);
        self.speech.forget();
        let first = !std::mem::replace(&mut self.ready, true);
        self.tell(if first {
            VoiceEvent::Ready
        } else {
            VoiceEvent::Reconnected
        });
        self.begin(by, !resumed, was_speaking);
    }

    /// The service announces that it will close the connection.
    pub(super) fn leave(&mut self, left: Duration) {
        let by = self.now + left.saturating_sub(MARGIN.min(left / 2));
        match &mut self.link {
            ConnectionState::Live {
                leaving: Some(leaving),
                ..
            } => leaving.by = leaving.by.min(by),
            ConnectionState::Live { leaving, since, .. } => {
                self.failures.lasted(self.now - *since);
                let until = self.now + self.failures.pause();
                *leaving = Some(ClosingConnection {
                    by,
                    next: NextSocket::Waiting { until },
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
        let ConnectionState::Live {
            leaving: Some(leaving),
            ..
        } = &mut self.link
        else {
            return;
        };
        let due = settled || self.now >= leaving.by;
        match leaving.next {
            NextSocket::Open(connection) if due => {
                self.failures.away = Some(self.now);
                self.link = ConnectionState::Yielding {
                    connection,
                    old,
                    until: self.now + CLOSING,
                };
                self.close(old);
            }
            NextSocket::Waiting { until } if self.now >= until => {
                let connection = self.next_socket();
                if let ConnectionState::Live {
                    leaving: Some(leaving),
                    ..
                } = &mut self.link
                {
                    leaving.next = NextSocket::Opening(connection);
                }
            }
            NextSocket::Waiting { .. } | NextSocket::Opening(_) | NextSocket::Open(_) => {}
        }
    }

    /// A socket was closed, or could not be opened.
    pub(super) fn closed(&mut self, closed: u32, why: &CloseReason) {
        match &mut self.link {
            ConnectionState::Live {
                connection,
                since,
                is_of_use,
                is_unproven,
                leaving,
            } if *connection == closed => {
                let lasted = self.now - *since;
                self.failures.resumptions = match *is_unproven && lasted < STABLE {
                    true => self.failures.resumptions + 1,
                    false => 0,
                };
                let counts = !*is_of_use && lasted < STABLE;
                self.failures.useless = if counts { self.failures.useless + 1 } else { 0 };
                let leaving = leaving.take();
                // A connection with `goAway` was counted then.
                if leaving.is_none() {
                    self.failures.lasted(lasted);
                }
                self.connection_lost(leaving, why);
            }
            ConnectionState::Live {
                leaving: Some(leaving),
                ..
            } if matches!(leaving.next, NextSocket::Opening(next) | NextSocket::Open(next) if next == closed) =>
            {
                leaving.next = NextSocket::Waiting {
                    until: self.now + NEXT,
                };
            }
            ConnectionState::Yielding {
                connection, old, ..
            } => {
                let (connection, old) = (*connection, *old);
                if old == closed {
                    self.set_up_on(connection);
                } else if connection == closed {
                    self.failed(why);
                }
            }
            ConnectionState::Opening { connection, .. } if *connection == closed => {
                self.refused_or_failed(why);
            }
            ConnectionState::SettingUp {
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

    /// The current connection brought something useful: content or a tool call, or a handle only.
    pub(super) fn brought_something(&mut self, has_content: bool) {
        if let ConnectionState::Live {
            is_of_use,
            is_unproven,
            ..
        } = &mut self.link
        {
            *is_of_use = true;
            *is_unproven &= !has_content;
        }
    }

    fn connection_lost(&mut self, leaving: Option<ClosingConnection>, why: &CloseReason) {
        self.doubt_lost();
        self.forget_useless_handle();
        self.failures.away = Some(self.now);
        self.failures.words.clone_from(&why.words);
        match leaving.map(|leaving| leaving.next) {
            Some(NextSocket::Open(connection)) => return self.set_up_on(connection),
            Some(NextSocket::Opening(connection)) => {
                self.link = ConnectionState::Opening {
                    connection,
                    until: self.now + ATTEMPT,
                };
            }
            Some(NextSocket::Waiting { .. }) | None => {
                self.link = ConnectionState::Waiting {
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

    /// A session that was resumed often, and has brought no word since, is begun anew.
    fn forget_useless_handle(&mut self) {
        if self.failures.resumptions >= RESUMPTIONS {
            self.forget_handle();
        }
    }

    fn forget_handle(&mut self) {
        self.handle = None;
        self.failures.resumptions = 0;
    }

    fn resumption_failed(&mut self, why: &CloseReason) {
        self.failures.resumptions += 1;
        self.forget_useless_handle();
        if why.refused {
            self.forget_handle();
        }
        if why.refused {
            self.failures.words.clone_from(&why.words);
            self.link = ConnectionState::Waiting { until: self.now };
            self.link_time();
        } else {
            self.failed(why);
        }
    }

    fn refused_or_failed(&mut self, why: &CloseReason) {
        if !why.refused {
            return self.failed(why);
        }
        if self.session_settings.leave_out(&why.words) {
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
            self.tell(VoiceEvent::Away);
        }
    }

    fn failed(&mut self, why: &CloseReason) {
        self.tell_away();
        let pause = self.failures.attempt_failed(&why.words);
        self.link = ConnectionState::Waiting {
            until: self.now + pause,
        };
    }

    /// Closes a connection from this side, as if the other had closed it.
    pub(super) fn give_up_connection(&mut self, connection: u32, words: &str) {
        self.close(connection);
        self.closed(connection, &CloseReason::gone(words));
    }

    fn close(&mut self, connection: u32) {
        self.effects.push(SessionEffect::Close { connection });
    }

    fn lost(&mut self, words: String) {
        let sockets = match &self.link {
            ConnectionState::Opening { connection, .. }
            | ConnectionState::SettingUp { connection, .. } => {
                vec![*connection]
            }
            ConnectionState::Yielding {
                connection, old, ..
            } => vec![*connection, *old],
            ConnectionState::Waiting { .. }
            | ConnectionState::Live { .. }
            | ConnectionState::Over => Vec::new(),
        };
        for connection in sockets {
            self.close(connection);
        }
        self.link = ConnectionState::Over;
        self.tell(VoiceEvent::Lost(words));
    }
}
