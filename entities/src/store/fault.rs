//! Faults of a connection and their consequences.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sea_orm::{DbErr, RuntimeErr, SqlxError};

use crate::batch::{GUARD_CODE, SQLITE_GUARD_CODE};

/// The reason why a request over a connection did not succeed.
#[derive(Debug)]
pub(super) enum SendFault {
    /// No answer came within the timeout.
    Silent(Duration),
    /// The error of the database or of the connection.
    Said(SqlxError),
}

/// The state of a connection after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFault {
    /// As before: the statement was refused.
    Usable,
    /// Its state is unknown or bad, so it must be closed.
    Unusable,
    /// The link is cut or the server is gone, which also affects other connections to the database.
    Cut,
}

/// Facts that the pools of one store share.
#[derive(Debug, Default)]
pub(super) struct PoolSignals {
    cuts: AtomicU64,
    refusals: AtomicU64,
    refuses_unsafe: AtomicBool,
}

impl PoolSignals {
    /// Number of times the link to the server was cut. Connections made before the last one are not used again.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Relaxed)
    }

    pub(super) fn note_cut(&self) {
        self.cuts.fetch_add(1, Relaxed);
    }

    pub(super) fn refuse_unsafe_sessions(&self) {
        self.refuses_unsafe.store(true, Relaxed);
    }

    pub(super) fn refuses_unsafe_sessions(&self) -> bool {
        self.refuses_unsafe.load(Relaxed)
    }

    /// Number of refusals by disk or memory.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    pub(super) fn note_refusal(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }
}

impl SendFault {
    pub(super) fn after_fault(&self) -> AfterFault {
        match self {
            Self::Silent(_) => AfterFault::Cut,
            Self::Said(error) => meaning(error).after_fault(),
        }
    }

    /// True if disk or memory refused, so that the next write may be refused too.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Silent(_) => false,
            Self::Said(error) => meaning(error).is_refusal(),
        }
    }

    /// Ignores SQLite's error for a rollback without an open transaction, as after a `BEGIN` that waited too long for
    /// another process's write. SQLite refuses a rollback for no other reason.
    pub(super) fn unless_nothing_was_open(self) -> Result<(), Self> {
        match &self {
            Self::Said(SqlxError::Database(error)) if error.code().as_deref() == Some("1") => {
                Ok(())
            }
            _ => Err(self),
        }
    }

    /// As the error of a statement that writes.
    pub(super) fn executing(self) -> DbErr {
        self.into_error(DbErr::Exec)
    }

    /// As the error of a statement that reads.
    pub(super) fn asking(self) -> DbErr {
        self.into_error(DbErr::Query)
    }

    /// As the error of a failed connection.
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

/// The error for a database that is unavailable now.
pub(super) fn away(why: impl Display) -> DbErr {
    DbErr::Conn(RuntimeErr::Internal(why.to_string()))
}

/// An error's text, without the line of PostgreSQL's source, which helps no reader.
pub fn in_words(error: &impl Display) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((words, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => words.to_owned(),
        _ => text,
    }
}

/// The meaning of an error: the only list from which its consequences are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The statement is wrong, or conflicts with the data that it found.
    Wrong,
    /// Resources are in use, or a timeout expired. It may succeed later.
    Busy,
    /// Disk or memory refused. It may succeed once there is room.
    Refused,
    /// Disk or memory refused, and SQLite may have rolled back or not: the connection's state is unknown.
    RefusedMidway,
    /// The file is no database, or a damaged one.
    Broken,
    /// The link is cut or the server is gone. It may succeed on another connection.
    Cut,
    /// Unknown, so neither the connection nor another try is relied upon.
    Unknown,
}

impl Meaning {
    fn after_fault(self) -> AfterFault {
        match self {
            Self::Wrong | Self::Busy | Self::Refused => AfterFault::Usable,
            Self::RefusedMidway | Self::Broken => AfterFault::Unusable,
            Self::Cut | Self::Unknown => AfterFault::Cut,
        }
    }

    fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::RefusedMidway | Self::Broken)
    }

    fn is_transient(self) -> bool {
        match self {
            Self::Busy | Self::Refused | Self::RefusedMidway | Self::Cut => true,
            Self::Wrong | Self::Broken | Self::Unknown => false,
        }
    }
}

fn meaning(error: &SqlxError) -> Meaning {
    match error {
        SqlxError::Database(error) => meaning_of_code(&error.code().unwrap_or_default()),
        SqlxError::RowNotFound
        | SqlxError::Encode(_)
        | SqlxError::Decode(_)
        | SqlxError::ColumnDecode { .. } => Meaning::Wrong,
        SqlxError::Io(_)
        | SqlxError::Tls(_)
        | SqlxError::Protocol(_)
        | SqlxError::PoolTimedOut
        | SqlxError::PoolClosed
        | SqlxError::WorkerCrashed => Meaning::Cut,
        _ => Meaning::Unknown,
    }
}

/// PostgreSQL's codes have five characters (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
/// SQLite's are numbers whose low byte is the kind (<https://www.sqlite.org/rescode.html>).
fn meaning_of_code(code: &str) -> Meaning {
    if code.len() == 5 {
        return match (&code[..2], code) {
            // Connection exceptions, shutdown or termination, idle too long in a transaction, read-only after a
            // failover.
            ("08", _) | (_, "25P03" | "25006") => Meaning::Cut,
            ("57", code) if code.starts_with("57P") => Meaning::Cut,
            // Full disk, out of memory, system errors.
            (_, "53100" | "53200") | ("58", _) => Meaning::Refused,
            // Rolled back because of others, no resources, in use, stopped by the server or an operator.
            ("40" | "53" | "55" | "57", _) => Meaning::Busy,
            _ => Meaning::Wrong,
        };
    }
    match code.parse().map_or(0, |code: u32| code & 0xff) {
        // Busy, locked, interrupted.
        5 | 6 | 9 => Meaning::Busy,
        // Out of memory, read-only, input or output, full, cannot open.
        7 | 8 | 10 | 13 | 14 => Meaning::RefusedMidway,
        // Corrupt, not a database.
        11 | 26 => Meaning::Broken,
        _ => Meaning::Wrong,
    }
}

/// True if the fault lies with the database or its other users and may pass: the same statement may succeed later.
/// Otherwise it lies with the statement.
pub fn is_transient(error: &DbErr) -> bool {
    match error {
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => true,
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            meaning(error).is_transient()
        }
        _ => false,
    }
}

/// True if the server rolled a transaction back because of others, after a deadlock or a serialization failure.
/// Nothing of it happened, and it may be repeated.
pub fn lost_a_race(error: &DbErr) -> bool {
    says(error, &["40P01", "40001"])
}

/// True if a statement waited too long for a row that another transaction has locked.
pub fn is_locked_out(error: &DbErr) -> bool {
    says(error, &["55P03"])
}

/// True if a statement exceeded its timeout. The same statement may well take as long again.
pub fn took_too_long(error: &DbErr) -> bool {
    says(error, &["57014", "9"])
}

/// True if a statement did not find the rows as they were: its guard failed, a new row's key is taken, or a call that it waited
/// for has ended, which moves it to another partition (40001).
pub(super) fn found_other_rows(error: &DbErr) -> bool {
    let guards = [GUARD_CODE, SQLITE_GUARD_CODE];
    says(error, &guards) || says(error, &["23505", "1555", "2067", "40001"])
}

fn says(error: &DbErr, codes: &[&str]) -> bool {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            match error.as_ref() {
                SqlxError::Database(error) => codes.contains(&&*error.code().unwrap_or_default()),
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

    /// For each code: the connection's state, whether it is transient, and whether disk or memory refused.
    #[test]
    fn every_code_means_one_thing() {
        use AfterFault::{Cut, Unusable, Usable};
        #[rustfmt::skip]
        let table = [
            // PostgreSQL: a lost connection, shutting down, idle for too long, read-only after a failover.
            ("08006", Cut, true, false), ("57P01", Cut, true, false), ("25P03", Cut, true, false), ("25006", Cut, true, false),
            // Deadlock, serialisation, lock timeout, statement timeout, too many connections.
            ("40P01", Usable, true, false), ("40001", Usable, true, false), ("55P03", Usable, true, false),
            ("57014", Usable, true, false), ("53300", Usable, true, false),
            // Full disk, out of memory, a system error.
            ("53100", Usable, true, true), ("53200", Usable, true, true), ("58030", Usable, true, true),
            // Check and unique violations, invalid text, undefined table, failed transaction, unknown.
            ("23514", Usable, false, false), ("23505", Usable, false, false), ("22021", Usable, false, false),
            ("42P01", Usable, false, false), ("25P02", Usable, false, false), ("", Usable, false, false),
            // SQLite: busy, its snapshot form, locked, interrupted.
            ("5", Usable, true, false), ("517", Usable, true, false), ("6", Usable, true, false), ("9", Usable, true, false),
            // Out of memory, read-only, input or output, its write variant, full, cannot open.
            ("7", Unusable, true, true), ("8", Unusable, true, true), ("10", Unusable, true, true),
            ("778", Unusable, true, true), ("13", Unusable, true, true), ("14", Unusable, true, true),
            // Corrupt, not a database.
            ("11", Unusable, false, true), ("26", Unusable, false, true),
            // Error, CHECK, primary key, unique.
            ("1", Usable, false, false), ("19", Usable, false, false), ("275", Usable, false, false),
            ("787", Usable, false, false), ("1555", Usable, false, false),
        ];
        for (code, after_fault, is_transient, is_refusal) in table {
            let meaning = meaning_of_code(code);
            let found = (
                meaning.after_fault(),
                meaning.is_transient(),
                meaning.is_refusal(),
            );
            assert_eq!(found, (after_fault, is_transient, is_refusal), "{code}");
        }
        assert_eq!(SendFault::Silent(Duration::ZERO).after_fault(), Cut);
    }

    /// Errors without a code, from the connection or from the library that reads answers.
    #[test]
    fn a_way_that_is_cut_passes_and_what_nobody_knows_does_not() {
        let io = || SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        for (error, after_fault, is_transient) in [
            (io(), AfterFault::Cut, true),
            (SqlxError::PoolTimedOut, AfterFault::Cut, true),
            (SqlxError::WorkerCrashed, AfterFault::Cut, true),
            (SqlxError::RowNotFound, AfterFault::Usable, false),
            (SqlxError::BeginFailed, AfterFault::Cut, false),
        ] {
            assert_eq!(meaning(&error).after_fault(), after_fault, "{error}");
            let told = SendFault::Said(error).executing();
            assert_eq!(super::is_transient(&told), is_transient, "{told}");
        }
        assert!(super::is_transient(&away("no answer")));
    }
}
