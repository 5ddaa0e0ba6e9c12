//! The connection in use, and the change to the next one.
//!
//! A connection is closed with 1001 after 60 minutes, and no session can be resumed. So after 50 minutes the next one is set up
//! beside it, gets the conversation so far as items, and takes over in a quiet moment. A lost one is replaced in the same way.

use std::time::Duration;

use super::{RealtimeMachine, SessionEffect, VoiceEvent, answers::Unanswered};
use crate::voice::common::{ATTEMPT, AWAY, CloseReason, FAILURES, Failures, STABLE, is_fatal};

/// Age of a connection at which the next one is opened.
const RENEWAL: Duration = Duration::from_secs(50 * 60);
/// Age at which the next one takes over, whatever goes on.
const RENEWED_BY: Duration = Duration::from_secs(57 * 60);
/// Pause before the next connection is tried again while the old one lives.
const NEXT: Duration = Duration::from_secs(5);
/// Faults on one connection, such as unreadable messages, before it is given up.
const FAULTS_MOST: u32 = 16;
/// Codes of errors that end a connection, in one session.
const ERRORS_MOST: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ModelConnections {
    /// ModelConnections opened so far.
    count: u32,
    live: Option<LiveConnection>,
    next: NextConnection,
    failures: Failures,
    /// Codes of errors that ended a connection. A new one does not help against them.
    errors: Vec<String>,
    /// The session was ready once.
    ready: bool,
    is_over: bool,
}

impl ModelConnections {
    /// True if an error with this code ends the connection: at its first time in the session.
    pub(super) fn ends_with(&mut self, code: &str) -> bool {
        let is_new = self.errors.len() < ERRORS_MOST && !self.errors.iter().any(|it| it == code);
        if is_new {
            self.errors.push(code.to_owned());
        }
        is_new
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

#[derive(Debug)]
struct LiveConnection {
    connection: u32,
    since: Duration,
    /// It brought speech, the caller's words or a tool call.
    is_of_use: bool,
    faults: u32,
}

/// The connection that is being set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NextConnection {
    #[default]
    None,
    Waiting {
        until: Duration,
    },
    Opening {
        connection: u32,
        until: Duration,
    },
    /// The socket is open; `session.created` has to come before anything is sent.
    Opened {
        connection: u32,
        until: Duration,
    },
    /// The terms are sent.
    SettingUp {
        connection: u32,
        until: Duration,
    },
    /// It waits for a quiet moment of the current one.
    Ready {
        connection: u32,
        /// The session's beginning, from which the server counts its hour.
        since: Duration,
    },
}

impl NextConnection {
    fn connection(self) -> Option<u32> {
        match self {
            Self::None | Self::Waiting { .. } => None,
            Self::Opening { connection, .. }
            | Self::Opened { connection, .. }
            | Self::SettingUp { connection, .. }
            | Self::Ready { connection, .. } => Some(connection),
        }
    }
}

impl RealtimeMachine {
    /// The connection on which the conversation is.
    pub(super) fn live(&self) -> Option<u32> {
        let live = self.connections.live.as_ref();
        live.map(|live| live.connection)
    }

    /// The live connection brought something useful.
    pub(super) fn brought_something(&mut self) {
        if let Some(live) = &mut self.connections.live {
            live.is_of_use = true;
        }
    }

    pub(super) fn connection_due(&self) -> Option<Duration> {
        let ModelConnections {
            live,
            next,
            failures,
            ..
        } = &self.connections;
        let attempt = match next {
            NextConnection::None => live.as_ref().map(|live| live.since + RENEWAL),
            NextConnection::Waiting { until }
            | NextConnection::Opening { until, .. }
            | NextConnection::Opened { until, .. }
            | NextConnection::SettingUp { until, .. } => Some(*until),
            NextConnection::Ready { .. } => live.as_ref().map(|live| live.since + RENEWED_BY),
        };
        match live {
            Some(_) => attempt,
            None => {
                let away = failures.away.unwrap_or_default() + AWAY;
                Some(attempt.map_or(away, |attempt| attempt.min(away)))
            }
        }
    }

    /// Handles expired deadlines.
    pub(super) fn connection_time(&mut self) {
        let away = self.connections.failures.away.unwrap_or_default();
        let Some(live) = &self.connections.live else {
            if self.now >= away + AWAY {
                let words = match self.connections.failures.words.as_str() {
                    "" => "no model answered within 8 s".to_owned(),
                    words => format!("no model for 8 s: {words}"),
                };
                return self.lost(words);
            }
            return self.attempt_time();
        };
        let age = self.now - live.since;
        match self.connections.next {
            NextConnection::None if age >= RENEWAL => self.open(),
            NextConnection::Ready { connection, since } if self.is_quiet() || age >= RENEWED_BY => {
                self.take_over(connection, since);
            }
            _ => self.attempt_time(),
        }
    }

    fn attempt_time(&mut self) {
        match self.connections.next {
            NextConnection::None if self.connections.live.is_none() => self.open(),
            NextConnection::Waiting { until } if self.now >= until => self.open(),
            NextConnection::Opening { connection, until }
            | NextConnection::Opened { connection, until }
            | NextConnection::SettingUp { connection, until }
                if self.now >= until =>
            {
                self.give_up(connection, "it took too long");
            }
            _ => {}
        }
    }

    /// Nobody is being answered, speaks, or waits for a function.
    fn is_quiet(&self) -> bool {
        let is_open = |connection| self.tools.open(connection);
        !self.answers.is_busy() && !self.live().is_some_and(is_open)
    }

    fn open(&mut self) {
        self.connections.count += 1;
        let connection = self.connections.count;
        // The first connection may take all the time that there is.
        let patience = match self.connections.ready {
            true => ATTEMPT,
            false => AWAY,
        };
        let until = self.now + patience;
        self.connections.next = NextConnection::Opening { connection, until };
        self.effects.push(SessionEffect::Open { connection });
    }

    /// A socket was opened.
    pub(super) fn opened(&mut self, opened: u32) {
        match self.connections.next {
            NextConnection::Opening { connection, .. } if connection == opened => {
                let until = self.now + AWAY;
                self.connections.next = NextConnection::Opened { connection, until };
            }
            next if next.connection() == Some(opened) || self.live() == Some(opened) => {}
            _ => self.close(opened),
        }
    }

    /// The server has begun a session: an update before would be ignored (AVA).
    pub(super) fn session_created(&mut self, by: u32) {
        if let NextConnection::Opened { connection, .. } = self.connections.next
            && connection == by
        {
            let until = self.now + AWAY;
            self.connections.next = NextConnection::SettingUp { connection, until };
            let update = self.terms.update();
            self.send(connection, update);
        }
    }

    /// The server has accepted the terms.
    pub(super) fn session_updated(&mut self, by: u32) {
        if let NextConnection::SettingUp { connection, .. } = self.connections.next
            && connection == by
        {
            let since = self.now;
            self.connections.next = NextConnection::Ready { connection, since };
            if self.connections.live.is_none() {
                self.take_over(connection, since);
            }
        }
    }

    fn take_over(&mut self, connection: u32, since: Duration) {
        if let Some(old) = self.connections.live.take() {
            self.close(old.connection);
        }
        self.connections.next = NextConnection::None;
        self.connections.live = Some(LiveConnection {
            connection,
            since,
            is_of_use: false,
            faults: 0,
        });
        self.connections.failures.succeeded();
        let owed = self.answers.unanswered();
        self.answers.forget();
        self.playback.forget_items();
        self.speech.forget();
        self.resampler.reset();
        let first = !std::mem::replace(&mut self.connections.ready, true);
        self.tell(if first {
            VoiceEvent::Ready
        } else {
            VoiceEvent::Reconnected
        });
        // A session of another voice has left the caller waiting.
        let owed = match first && self.spoke {
            true if self.is_answer_cut => Unanswered::RestOfAnswer,
            true => Unanswered::Caller,
            false => owed,
        };
        self.begin(connection, owed);
    }

    /// A socket was closed, or could not be opened.
    pub(super) fn closed(&mut self, closed: u32, why: &CloseReason) {
        let is_live = self.live() == Some(closed);
        let is_next = self.connections.next.connection() == Some(closed);
        if (is_live || is_next && self.live().is_none()) && (why.is_final || is_fatal(&why.words)) {
            self.connections.live = None;
            return self.lost(format!("the model refuses the session: {}", why.words));
        }
        if is_live {
            self.connection_lost(why);
        } else if is_next {
            self.attempt_failed(why);
        }
    }

    fn connection_lost(&mut self, why: &CloseReason) {
        let Some(live) = self.connections.live.take() else {
            return;
        };
        let failures = &mut self.connections.failures;
        let lasted = self.now - live.since;
        let counts = !live.is_of_use && lasted < STABLE;
        failures.useless = if counts { failures.useless + 1 } else { 0 };
        failures.lasted(lasted);
        failures.away = Some(self.now);
        failures.words.clone_from(&why.words);
        let (useless, until) = (failures.useless, self.now + failures.pause());
        self.tell_away();
        if useless >= FAILURES {
            return self.lost(format!(
                "{FAILURES} connections in a row brought nothing: {}",
                why.words
            ));
        }
        match self.connections.next {
            NextConnection::Ready { connection, since } => self.take_over(connection, since),
            NextConnection::None | NextConnection::Waiting { .. } => {
                self.connections.next = NextConnection::Waiting { until };
            }
            NextConnection::Opening { .. }
            | NextConnection::Opened { .. }
            | NextConnection::SettingUp { .. } => {}
        }
    }

    fn attempt_failed(&mut self, why: &CloseReason) {
        if self.live().is_some() {
            let until = self.now + NEXT;
            self.connections.next = NextConnection::Waiting { until };
            return;
        }
        self.tell_away();
        let failures = &mut self.connections.failures;
        if why.refused {
            failures.refusals += 1;
        }
        let refusals = failures.refusals;
        let until = self.now + failures.attempt_failed(&why.words);
        self.connections.next = NextConnection::Waiting { until };
        if refusals >= FAILURES {
            self.lost(format!("the model refuses the session: {}", why.words));
        }
    }

    /// Reports the lost model, once per loss and only after there was a model.
    fn tell_away(&mut self) {
        let is_ready = self.connections.ready;
        if is_ready && !std::mem::replace(&mut self.connections.failures.told, true) {
            self.tell(VoiceEvent::Away);
        }
    }

    /// An error before there is a session. A server that knows only a part of the terms may take the plain ones.
    pub(super) fn setup_refused(&mut self, connection: u32, code: &str) {
        let is_set_up = matches!(self.connections.next,
            NextConnection::SettingUp { connection: of, .. } if of == connection);
        if is_set_up && !self.terms.is_plain && !is_fatal(code) {
            self.terms.is_plain = true;
            let update = self.terms.update();
            return self.send(connection, update);
        }
        self.close(connection);
        let why = CloseReason {
            refused: true,
            words: format!("it answers with the error {code}"),
            ..CloseReason::default()
        };
        self.closed(connection, &why);
    }

    /// Closes a connection from this side, as if the other had closed it.
    pub(super) fn give_up(&mut self, connection: u32, words: &str) {
        self.close(connection);
        self.closed(connection, &CloseReason::gone(words));
    }

    /// Skips an unreadable message; too many are a fault of the connection.
    pub(super) fn rubbish(&mut self, connection: u32) {
        if self.counts_fault(connection) {
            self.give_up(connection, "it sent messages that cannot be read");
        }
    }

    /// Counts a fault of the live connection. True if there were too many.
    pub(super) fn counts_fault(&mut self, connection: u32) -> bool {
        match &mut self.connections.live {
            Some(live) if live.connection == connection => {
                live.faults += 1;
                live.faults > FAULTS_MOST
            }
            _ => false,
        }
    }

    fn close(&mut self, connection: u32) {
        self.effects.push(SessionEffect::Close { connection });
    }

    /// Ends the voice.
    pub(super) fn lost(&mut self, words: String) {
        let next = self.connections.next.connection();
        for connection in self.live().into_iter().chain(next) {
            self.close(connection);
        }
        self.connections.live = None;
        self.connections.next = NextConnection::None;
        self.connections.is_over = true;
        self.tell(VoiceEvent::Lost(words));
    }
}
