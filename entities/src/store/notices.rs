//! Notices between processes over one PostgreSQL (`LISTEN` and `NOTIFY`), on a dedicated connection. PostgreSQL keeps
//! no notices for a process that is not listening.

use std::{sync::Arc, time::Duration};

use sea_orm::{
    DbErr,
    sqlx::{
        self, Executor as _,
        postgres::{PgConnectOptions, PgListener, PgPoolOptions},
    },
};

use super::{
    Store,
    fault::{PoolSignals, SendFault, away},
    raw::within,
    runtime::{inside, spawn},
};

/// Timeout of connecting, and of each answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The settings of such a connection.
#[derive(Clone, Debug)]
pub(super) struct NoticeOptions {
    options: Box<PgConnectOptions>,
    signs: Arc<PoolSignals>,
}

impl NoticeOptions {
    pub(super) fn new(options: PgConnectOptions, signs: Arc<PoolSignals>) -> Self {
        // A notice is lost with the server anyway, so it need not wait for disk or standby.
        let options = options.options([("synchronous_commit", "off")]);
        Self {
            options: Box::new(options.application_name("dikala notices")),
            signs,
        }
    }

    /// Listens on a channel from now on.
    async fn listen(self, channel: &'static str) -> Result<NoticeConnection, DbErr> {
        let (signs, cuts) = (Arc::clone(&self.signs), self.signs.cuts());
        let connecting = async move {
            let one = PgPoolOptions::new()
                .max_connections(1)
                .test_before_acquire(false)
                .max_lifetime(None)
                .idle_timeout(None)
                .acquire_timeout(ANSWER_WITHIN)
                .connect_lazy_with(*self.options);
            let mut listener = PgListener::connect_with(&one).await?;
            // The listener must learn that it may have missed notices.
            listener.eager_reconnect(false);
            // Wrapped from here on, so that it is dropped inside the right runtime.
            let mut notices = NoticeConnection {
                listener: Some(listener),
                channel,
                signs,
                cuts,
            };
            notices.listener().listen(channel).await?;
            Ok(notices)
        };
        inside(within(Some(ANSWER_WITHIN), connecting))
            .await
            .map_err(SendFault::connecting)
    }
}

/// A connection for notices. After an error it must not be used again.
#[derive(Debug)]
pub struct NoticeConnection {
    listener: Option<PgListener>,
    channel: &'static str,
    signs: Arc<PoolSignals>,
    /// The number of cuts of the link when the connection was made.
    cuts: u64,
}

impl Store {
    /// Listens on a channel. None on SQLite, which only one process serves.
    pub async fn listen(&self, channel: &'static str) -> Result<Option<NoticeConnection>, DbErr> {
        match &self.listening {
            Some(listening) => listening.clone().listen(channel).await.map(Some),
            None => Ok(None),
        }
    }
}

impl NoticeConnection {
    fn listener(&mut self) -> &mut PgListener {
        self.listener.as_mut().expect("held until it is dropped")
    }

    /// Waits for the next notice, including this process's own. Cancelling it loses no notice.
    pub async fn next(&mut self) -> Result<String, DbErr> {
        let next = inside(self.listener().try_recv()).await;
        let next = next.map_err(|error| SendFault::Said(error).asking())?;
        let notice = next.ok_or_else(|| away("the connection that listens was closed"))?;
        Ok(notice.payload().to_owned())
    }

    /// Sends a notice of at most 8,000 bytes to all listeners.
    pub async fn tell(&mut self, notice: &str) -> Result<(), DbErr> {
        let channel = self.channel;
        let query = sqlx::query("SELECT pg_notify($1, $2)");
        let query = query.bind(channel).bind(notice);
        self.send(query).await
    }

    /// Fails if the server does not answer on this connection.
    pub async fn prove(&mut self) -> Result<(), DbErr> {
        self.send(sqlx::query("SELECT 1")).await
    }

    async fn send(
        &mut self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<(), DbErr> {
        // Before the last cut it may have led to the old primary, which may still answer.
        if self.signs.cuts() != self.cuts {
            return Err(away("the way to the server was cut"));
        }
        let sent = self.listener().execute(query);
        inside(within(Some(ANSWER_WITHIN), sent))
            .await
            .map(drop)
            .map_err(SendFault::asking)
    }
}

impl Drop for NoticeConnection {
    fn drop(&mut self) {
        let listener = self.listener.take();
        // Dropping it closes it in a task, which needs a runtime.
        spawn(async move { drop(listener) });
    }
}
