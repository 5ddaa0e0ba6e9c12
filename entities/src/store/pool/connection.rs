//! A connection in use: sending statements over it, and its return or end.

use std::time::{Duration, Instant};

use sea_orm::{DbErr, ExecResult, QueryResult, Statement};

use super::{Connections, PROOF_WITHIN, PooledConnection, State};
use crate::{
    batch::ArrayStatement,
    store::{
        fault::{AfterFault, SendFault},
        raw::{RawConnection, TransactionStart, within},
        runtime::{inside, spawn},
    },
};

impl PooledConnection {
    fn raw(&mut self) -> &mut RawConnection {
        &mut self.held.as_mut().expect("held until it is dropped").raw
    }

    pub(in crate::store) fn is_spoilt(&self) -> bool {
        self.state == State::Spoilt
    }

    pub(super) async fn begin(&mut self, sql: &'static str) -> Result<(), SendFault> {
        self.state = State::Open;
        let limit = self.home.shared.limits.begin;
        let begun = inside(within(limit, self.raw().begin(sql))).await;
        match begun {
            Ok(TransactionStart::Sent) => Ok(()),
            Ok(TransactionStart::WithTheFirst(opening)) => {
                self.opening = Some(opening);
                Ok(())
            }
            Err(fault) => {
                self.note(&fault);
                self.state = State::Spoilt;
                Err(fault)
            }
        }
    }

    /// Marks the following statements as part of a transaction that may commit.
    pub(in crate::store) fn writes(&mut self) {
        self.writer = self.raw().process().cloned();
    }

    /// Ends the transaction with `COMMIT` or `ROLLBACK`. If that fails, the connection is not used again.
    pub(in crate::store) async fn end(&mut self, sql: &str) -> Result<(), SendFault> {
        if self.opening.take().is_some() {
            self.state = State::Clean;
            return Ok(());
        }
        let limit = self.home.shared.limits.statement;
        let ended = inside(within(limit, self.raw().unprepared(sql))).await;
        match &ended {
            Ok(_) => self.state = State::Clean,
            Err(fault) => {
                self.state = State::Spoilt;
                self.note(fault);
            }
        }
        ended.map(drop)
    }

    /// Executes a statement that begins and commits a transaction itself, on SQLite. If it fails, the connection is not used
    /// again before a rollback.
    pub(in crate::store) async fn transaction(
        mut self,
        statement: &Statement,
    ) -> Result<(), DbErr> {
        self.state = State::Open;
        let limit = self.home.shared.limits.statement;
        let answer = inside(within(limit, self.raw().execute(statement))).await;
        let done = self.answered(State::Open, answer);
        if done.is_ok() {
            self.state = State::Clean;
        }
        done.map(drop).map_err(SendFault::executing)
    }

    pub(in crate::store) async fn execute(
        &mut self,
        limit: Option<Duration>,
        statement: &Statement,
    ) -> Result<ExecResult, DbErr> {
        self.open().await?;
        let before = self.ask();
        let answer = inside(within(limit, self.raw().execute(statement))).await;
        self.answered(before, answer).map_err(SendFault::executing)
    }

    pub(in crate::store) async fn unprepared(
        &mut self,
        limit: Option<Duration>,
        sql: &str,
    ) -> Result<ExecResult, DbErr> {
        self.open().await?;
        let before = self.ask();
        let answer = inside(within(limit, self.raw().unprepared(sql))).await;
        self.answered(before, answer).map_err(SendFault::executing)
    }

    pub(in crate::store) async fn one(
        &mut self,
        limit: Option<Duration>,
        statement: &Statement,
    ) -> Result<Option<QueryResult>, DbErr> {
        let rows = self.all(limit, statement).await?;
        Ok(rows.into_iter().next())
    }

    pub(in crate::store) async fn all(
        &mut self,
        limit: Option<Duration>,
        statement: &Statement,
    ) -> Result<Vec<QueryResult>, DbErr> {
        let opened = self.opening.take().map(|opening| {
            let mut statement = statement.clone();
            statement.sql = format!("{opening}; {}", statement.sql);
            statement
        });
        let statement = opened.as_ref().unwrap_or(statement);
        let before = self.ask();
        let answer = inside(within(limit, self.raw().all(statement))).await;
        self.answered(before, answer).map_err(SendFault::asking)
    }

    /// Like [`one`](Self::one), on PostgreSQL.
    pub(in crate::store) async fn arrays(
        &mut self,
        limit: Option<Duration>,
        statement: &ArrayStatement,
    ) -> Result<QueryResult, SendFault> {
        let before = self.ask();
        let answer = inside(within(limit, self.raw().arrays(statement))).await;
        self.answered(before, answer)
    }

    /// Sends the statement that begins the transaction, if that was not done. A write is not sent in the same text,
    /// because SQLite would count earlier changes too.
    async fn open(&mut self) -> Result<(), DbErr> {
        let Some(opening) = self.opening.take() else {
            return Ok(());
        };
        let begun = inside(within(None, self.raw().unprepared(opening))).await;
        self.answered(State::Open, begun)
            .map(drop)
            .map_err(SendFault::executing)
    }

    fn ask(&mut self) -> State {
        let before = self.state;
        if before == State::Clean {
            self.state = State::Asked;
        }
        before
    }

    fn answered<T>(&mut self, before: State, answer: Result<T, SendFault>) -> Result<T, SendFault> {
        self.state = match &answer {
            Err(fault) if fault.after_fault() != AfterFault::Usable => State::Spoilt,
            _ => before,
        };
        if let Err(fault) = &answer {
            self.note(fault);
        }
        answer
    }

    /// Reports a fault to the other pools.
    fn note(&self, fault: &SendFault) {
        if fault.is_refusal() {
            self.home.shared.signs.note_refusal();
        }
        if fault.after_fault() == AfterFault::Cut {
            tracing::warn!(
                ?fault,
                "lost a connection to the database; it and all older ones are replaced"
            );
            self.home.cut();
        }
    }

    /// The time at which it was made.
    pub(in crate::store) fn born(&self) -> Instant {
        self.held
            .as_ref()
            .map_or_else(Instant::now, |held| held.born)
    }

    /// True if it was made before that moment and answers.
    pub(super) async fn has_lived_since(mut self, moment: Instant) -> bool {
        if self.born() > moment {
            return false;
        }
        let before = self.ask();
        let answer = inside(within(Some(PROOF_WITHIN), self.raw().ping())).await;
        self.answered(before, answer).is_ok()
    }

    pub(in crate::store) fn home(&self) -> &Connections {
        &self.home
    }

    /// Replaces the connection, keeping the permit, if it must not be used again.
    pub(super) async fn reconnect(&mut self) -> Result<(), DbErr> {
        if self.state == State::Clean {
            return Ok(());
        }
        let cuts = self.home.shared.signs.cuts();
        let raw = inside(self.home.connect()).await?;
        if let Some(held) = &mut self.held {
            (held.raw, held.born, held.cuts, held.fresh) = (raw, Instant::now(), cuts, true);
        }
        (self.state, self.opening, self.writer) = (State::Clean, None, None);
        Ok(())
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        let left = match self.state {
            State::Clean => return self.home.give_back(held),
            // The transaction never began.
            State::Open if self.opening.is_some() => return self.home.give_back(held),
            State::Spoilt if self.writer.is_none() => return,
            state => state,
        };
        let mut connection = Self {
            home: self.home.clone(),
            held: Some(held),
            state: left,
            opening: None,
            writer: self.writer.take(),
        };
        spawn(async move {
            if left != State::Spoilt && connection.settle().await {
                return;
            }
            // A transaction on it keeps its locks until the server notices.
            if let Some(process) = connection.writer.take() {
                connection.state = State::Spoilt;
                connection.stay_while_committing(&process).await;
            }
        });
    }
}

impl PooledConnection {
    /// Finishes the statement or transaction of a caller that left. True if the connection can be used again.
    async fn settle(&mut self) -> bool {
        let open = self.state == State::Open;
        let limit = self.home.shared.limits.statement.map(|_| PROOF_WITHIN);
        let ended = if open {
            let ended = within(limit, self.raw().unprepared("ROLLBACK")).await;
            ended.map(drop).or_else(SendFault::unless_nothing_was_open)
        } else {
            within(limit, self.raw().ping()).await
        };
        self.state = match ended {
            Ok(()) => State::Clean,
            Err(_) => State::Spoilt,
        };
        ended.is_ok()
    }
}
