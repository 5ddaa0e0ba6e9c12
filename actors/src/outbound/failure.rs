//! What goes wrong in an exchange, and how it is named to those who see it.

use std::{error::Error as _, fmt, io};

use awc::error::{ConnectError, PayloadError, SendRequestError};

use super::permission::Withdrawn;

/// No answer, or one that broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    /// The status, where the head of an answer had come.
    pub status: Option<u16>,
    /// What had come of the body.
    pub body: Vec<u8>,
}

impl Failure {
    /// Nothing had come of an answer.
    pub const fn without_answer(kind: ErrorKind) -> Self {
        Self {
            kind,
            status: None,
            body: Vec::new(),
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// What went wrong in an exchange without a complete answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* }

        /// Every kind as it is stored and shown.
        pub const ERROR_KINDS: &[&str] = &[$($word,)*];

        impl ErrorKind {
            /// The kind as it is stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }
        }
    };
}

kinds! {
    /// The name has no address.
    Dns = "dns",
    /// The address may not be dialled.
    BlockedTarget = "blocked_target",
    /// Nobody answered at the address.
    Connect = "connect",
    /// The TLS handshake failed.
    Tls = "tls",
    /// The exchange was not over in its time.
    Timeout = "timeout",
    /// The server closed the connection in the middle.
    Reset = "reset",
    /// The answer was not HTTP.
    InvalidResponse = "invalid_response",
    /// We could not try: nobody's fault but ours.
    Busy = "busy",
}

impl ErrorKind {
    /// Whether the fault is the service's own, so that no attempt is used up.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// A connection was not made. Travels through the HTTP client inside its own error.
#[derive(Debug)]
pub(super) struct DialError(pub(super) ErrorKind);

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl std::error::Error for DialError {}

/// What became of a request, from the words of the HTTP client.
pub(super) fn kind_of(error: &SendRequestError) -> ErrorKind {
    match error {
        SendRequestError::Connect(ConnectError::Resolver(inner)) => inner
            .downcast_ref::<DialError>()
            .map_or(ErrorKind::Dns, |dial| dial.0),
        SendRequestError::Connect(ConnectError::Timeout) | SendRequestError::Timeout => {
            ErrorKind::Timeout
        }
        SendRequestError::Send(error)
            if error.get_ref().is_some_and(|inner| inner.is::<Withdrawn>()) =>
        {
            ErrorKind::Busy
        }
        SendRequestError::Connect(ConnectError::Disconnected)
        | SendRequestError::Send(_)
        | SendRequestError::Body(_) => ErrorKind::Reset,
        SendRequestError::Connect(_) | SendRequestError::Url(_) => ErrorKind::Connect,
        // The parser's error type has no public name here; a socket's fault is its source.
        SendRequestError::Response(parse) => parse
            .source()
            .and_then(|source| source.downcast_ref())
            .map_or(ErrorKind::InvalidResponse, kind_of_io),
        _ => ErrorKind::InvalidResponse,
    }
}

/// What became of an answer whose body broke off.
pub(super) fn broken_off(error: &PayloadError) -> ErrorKind {
    match error {
        PayloadError::Io(error) | PayloadError::Incomplete(Some(error)) => kind_of_io(error),
        _ => ErrorKind::Reset,
    }
}

/// What the [`Wire`](super::wire::Wire) says of an answer, and the system of a socket.
fn kind_of_io(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::InvalidResponse,
        _ => ErrorKind::Reset,
    }
}
