//! What can go wrong on a connection, and what follows from it.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sea_orm::{DbErr, RuntimeErr, SqlxError};

/// Why something sent over a connection did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// No answer came within the time.
    Silent(Duration),
    /// The database, or the way to it, said so.
    Said(SqlxError),
}

/// What may still be done with the connection on which a fault happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// As before: the statement was refused.
    Usable,
    /// Nothing: its state is not known, or known to be bad.
    Unusable,
    /// Nothing, and others to the same database will be like it: the way there is cut, or the server went away.
    Cut,
}

/// What the pools of one store find out for each other.
#[derive(Debug, Default)]
pub(super) struct Signs {
    cuts: AtomicU64,
    refusals: AtomicU64,
}

impl Signs {
    /// How often the way to the server was cut; connections from before are not used again.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Relaxed)
    }

    pub(super) fn note_cut(&self) {
        self.cuts.fetch_add(1, Relaxed);
    }

    /// How often the disk or the memory would not have something.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    pub(super) fn note_refusal(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }
}

impl Fault {
    pub(super) fn leaves(&self) -> Leaves {
        match self {
            Self::Silent(_) => Leaves::Cut,
            Self::Said(SqlxError::Database(error)) => leaves(&error.code().unwrap_or_default()),
            Self::Said(
                SqlxError::RowNotFound
                | SqlxError::Encode(_)
                | SqlxError::Decode(_)
                | SqlxError::ColumnDecode { .. },
            ) => Leaves::Usable,
            Self::Said(_) => Leaves::Cut,
        }
    }

    /// Whether the disk or the memory would not have it, so that the next may be refused too.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Said(SqlxError::Database(error)) => is_refusal(&error.code().unwrap_or_default()),
            _ => false,
        }
    }

    /// As an error of a statement that changes something.
    pub(super) fn executing(self) -> DbErr {
        self.into_error(DbErr::Exec)
    }

    /// As an error of a statement that asks something.
    pub(super) fn asking(self) -> DbErr {
        self.into_error(DbErr::Query)
    }

    /// As an error of a connection that could not be had.
    pub(super) fn connecting(self) -> DbErr {
        self.into_error(DbErr::Conn)
    }

    fn into_error(self, of: fn(RuntimeErr) -> DbErr) -> DbErr {
        match self {
            Self::Silent(time) => away(format!("no answer within {time:?}")),
            Self::Said(error) => of(RuntimeErr::SqlxError(Arc::new(error))),
        }
    }
}

/// The error for a database that cannot be used now.
pub(super) fn away(why: impl Display) -> DbErr {
    DbErr::Conn(RuntimeErr::Internal(why.to_string()))
}

/// PostgreSQL's codes have five characters (<https://www.postgresql.org/docs/current/errcodes-appendix.html>); SQLite's are
/// numbers, whose low byte is the kind (<https://www.sqlite.org/rescode.html>).
fn leaves(code: &str) -> Leaves {
    if code.len() == 5 {
        // Connection exceptions, shut down or terminated, idle for too long in a transaction, read-only after a fail-over.
        let cut = ["08", "57P"].iter().any(|class| code.starts_with(class))
            || matches!(code, "25P03" | "25006");
        return if cut { Leaves::Cut } else { Leaves::Usable };
    }
    // No memory, read-only, input or output, corrupt, full, cannot open, not a database: SQLite may have rolled back by
    // itself, or not.
    match code.parse().map_or(0, |code: u32| code & 0xff) {
        7 | 8 | 10 | 11 | 13 | 14 | 26 => Leaves::Unusable,
        _ => Leaves::Usable,
    }
}

/// A fault in words. PostgreSQL tells the line of its own source where it came about, which means nothing to anybody here.
pub fn in_words(error: &impl Display) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((words, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => words.to_owned(),
        _ => text,
    }
}

/// PostgreSQL: a full disk, no memory, errors of the system below it. SQLite: all that spoils a connection.
fn is_refusal(code: &str) -> bool {
    matches!(code, "53100" | "53200")
        || code.len() == 5 && code.starts_with("58")
        || leaves(code) == Leaves::Unusable
}

/// Whether the fault lies with the database, or with others who use it, and passes by itself: the same statement may well
/// succeed later. Anything else lies with the statement.
pub fn is_outage(error: &DbErr) -> bool {
    match error {
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => true,
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            match error.as_ref() {
                SqlxError::Io(_)
                | SqlxError::Tls(_)
                | SqlxError::Protocol(_)
                | SqlxError::PoolTimedOut
                | SqlxError::PoolClosed
                | SqlxError::WorkerCrashed => true,
                SqlxError::Database(error) => is_outage_code(&error.code().unwrap_or_default()),
                _ => false,
            }
        }
        _ => false,
    }
}

fn is_outage_code(code: &str) -> bool {
    if code.len() == 5 {
        // Connection, rolled back for another's sake, no resources, in use, operator, system; idle for too long in a
        // transaction, read-only after a fail-over.
        return ["08", "40", "53", "55", "57", "58"]
            .iter()
            .any(|class| code.starts_with(class))
            || matches!(code, "25P03" | "25006");
    }
    // Busy, locked, no memory, read-only, interrupted, input or output, full, cannot open.
    let kind = code.parse().map_or(0, |code: u32| code & 0xff);
    matches!(kind, 5 | 6 | 7 | 8 | 9 | 10 | 13 | 14)
}

/// Whether the database broke a statement off because it took too long. The same statement may well take as long again.
pub fn took_too_long(error: &DbErr) -> bool {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            match error.as_ref() {
                SqlxError::Database(error) => {
                    matches!(&*error.code().unwrap_or_default(), "57014" | "9")
                }
                _ => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_somebody_elses_source_is_not_told() {
        for (said, told) in [
            (
                "permission denied for table a at line 3655",
                "permission denied for table a",
            ),
            ("not valid at line seven", "not valid at line seven"),
            ("at line 3 of the file", "at line 3 of the file"),
            ("disk full", "disk full"),
        ] {
            assert_eq!(in_words(&said), told);
        }
    }

    #[test]
    fn an_outage_is_told_from_wrong_data() {
        // Deadlock, serialisation, lock timeout, statement timeout, shutting down, too many connections, disk full, read-only
        // after a fail-over; SQLite: busy, its snapshot form, interrupted, input or output, full.
        for code in [
            "40P01", "40001", "55P03", "57014", "57P01", "53300", "53100", "08006", "25006", "5",
            "517", "9", "10", "778", "13",
        ] {
            assert!(is_outage_code(code), "{code}");
        }
        // Check and unique violations, bad text, no such table, failed transaction, nothing; SQLite: error, CHECK, primary key.
        for code in [
            "23514", "23505", "22021", "42P01", "25P02", "", "1", "19", "275", "787", "1555",
        ] {
            assert!(!is_outage_code(code), "{code}");
        }
    }

    #[test]
    fn what_the_disk_would_not_have_is_told_from_what_was_wrong_or_in_use() {
        for code in ["53100", "53200", "58030", "13", "10", "778", "8"] {
            assert!(is_refusal(code), "{code}");
        }
        for code in ["53300", "23505", "40P01", "57P01", "5", "517", "1555", ""] {
            assert!(!is_refusal(code), "{code}");
        }
    }

    #[test]
    fn a_connection_after_a_fault_is_used_again_only_where_nothing_happened_to_it() {
        for (code, then) in [
            ("23505", Leaves::Usable),
            ("40P01", Leaves::Usable),
            ("57014", Leaves::Usable),
            ("5", Leaves::Usable),
            ("1555", Leaves::Usable),
            ("13", Leaves::Unusable),
            ("778", Leaves::Unusable),
            ("57P01", Leaves::Cut),
            ("25P03", Leaves::Cut),
            ("25006", Leaves::Cut),
            ("08006", Leaves::Cut),
        ] {
            assert_eq!(leaves(code), then, "{code}");
        }
        assert_eq!(Fault::Silent(Duration::ZERO).leaves(), Leaves::Cut);
    }
}
