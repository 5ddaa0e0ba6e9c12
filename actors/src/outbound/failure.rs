//! The failures of an exchange, and their names for users.

use std::{error::Error as _, fmt, io};

use awc::error::{ConnectError, PayloadError, SendRequestError};

use super::permission::PermissionWithdrawn;

/// No answer, or an incomplete one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    /// The status, if a head had arrived.
    pub status: Option<u16>,
    /// The part of the body that had arrived.
    pub body: Vec<u8>,
}

impl Failure {
    /// A failure before anything of an answer arrived.
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
        /// The reasons why an exchange has no complete answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* }

        /// Every reason's name, as stored and shown.
        pub const ERROR_KINDS: &[&str] = &[$($word,)*];

        impl ErrorKind {
            /// The name, as stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }
        }
    };
}

kinds! {
    /// The name has no address.
    Dns = "dns",
    BlockedTarget = "blocked_target",
    /// Nothing accepted a connection at the address.
    Connect = "connect",
    /// The TLS handshake failed.
    Tls = "tls",
    /// The exchange exceeded its timeout.
    Timeout = "timeout",
    /// The server closed the connection before the answer was complete.
    Reset = "reset",
    /// The answer was not HTTP.
    InvalidResponse = "invalid_response",
    /// This machine could not try.
    Busy = "busy",
}

impl ErrorKind {
    /// True if the service itself is at fault, so that no attempt is used up.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// A failed connection. It passes through the HTTP client inside that client's error.
#[derive(Debug)]
pub(super) struct DialFailure(pub(super) ErrorKind);

impl fmt::Display for DialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl std::error::Error for DialFailure {}

/// The reason for a failed request, from the HTTP client's error.
pub(super) fn kind_of(error: &SendRequestError) -> ErrorKind {
    match error {
        SendRequestError::Connect(ConnectError::Resolver(inner)) => inner
            .downcast_ref::<DialFailure>()
            .map_or(ErrorKind::Dns, |dial| dial.0),
        SendRequestError::Connect(ConnectError::Timeout) | SendRequestError::Timeout => {
            ErrorKind::Timeout
        }
        SendRequestError::Send(error)
            if error
                .get_ref()
                .is_some_and(|inner| inner.is::<PermissionWithdrawn>()) =>
        {
            ErrorKind::Busy
        }
        SendRequestError::Connect(ConnectError::Disconnected)
        | SendRequestError::Send(_)
        | SendRequestError::Body(_) => ErrorKind::Reset,
        SendRequestError::Connect(_) | SendRequestError::Url(_) => ErrorKind::Connect,
        // The parser's error type has no public name; a socket's error is its source.
        SendRequestError::Response(parse) => parse
            .source()
            .and_then(|source| source.downcast_ref())
            .map_or(ErrorKind::InvalidResponse, kind_of_io),
        _ => ErrorKind::InvalidResponse,
    }
}

/// The server closed the connection before the end of the body.
pub(super) fn is_cut(error: &PayloadError) -> bool {
    matches!(error, PayloadError::Io(error) | PayloadError::Incomplete(Some(error))
        if error.kind() == io::ErrorKind::UnexpectedEof)
}

/// The reason for a body that broke off.
pub(super) fn broken_off(error: &PayloadError) -> ErrorKind {
    match error {
        PayloadError::Io(error) | PayloadError::Incomplete(Some(error)) => kind_of_io(error),
        _ => ErrorKind::Reset,
    }
}

/// Errors of the [`GuardedStream`](super::wire::GuardedStream) about an answer, and of the system about a socket.
fn kind_of_io(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::InvalidResponse,
        _ => ErrorKind::Reset,
    }
}
