//! The ledger's actor: gathers items while a batch is written, replies after the commit.

use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use actix_rt::ArbiterHandle;
use tokio::sync::oneshot;

use super::{
    Booking, LedgerError, LedgerParts,
    batch::{Posting, write},
};
use crate::{
    metered,
    runtime::{
        context::{MeteredContext, OnPanic},
        group_commit::{BatchStats, GroupCommit, commit},
    },
    traces::Span,
};

/// Items in one transaction.
pub const BATCH_MAX: usize = 256;
/// Items that wait; past that callers are told to try again.
const QUEUE_MAX: usize = 16_384;
const MAILBOX: usize = 4_096;

/// Book and write this, and answer when it is durable.
#[derive(Message)]
#[rtype(result = "Booking")]
pub(super) struct Post(pub(super) Posting, pub(super) Option<Span>);

struct Waiting {
    posting: Posting,
    /// Of what it is part, where that is recorded.
    span: Option<Span>,
    reply: oneshot::Sender<Booking>,
}

impl Waiting {
    /// It was committed or refused, with so many in one transaction.
    fn is_done(&mut self, together: usize, error: Option<&LedgerError>) {
        let Some(mut span) = self.span.take() else {
            return;
        };
        let together = i64::try_from(together).unwrap_or(i64::MAX);
        span.count("dikala.batch.items", together);
        if let Some(error) = error {
            span.failed(error.to_string());
        }
        span.end();
    }
}

/// One shard of the ledger.
pub struct CreditLedger {
    parts: LedgerParts,
    stats: Arc<BatchStats>,
    queue: GroupCommit<Waiting>,
}

metered!(CreditLedger, "credit_ledger");

impl std::fmt::Debug for CreditLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreditLedger")
            .field("waiting", &self.queue.waiting())
            .finish_non_exhaustive()
    }
}

impl CreditLedger {
    pub(super) fn start(
        arbiter: &ArbiterHandle,
        parts: LedgerParts,
        stats: Arc<BatchStats>,
    ) -> Addr<Self> {
        MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| Self {
            parts,
            stats,
            queue: GroupCommit::new(BATCH_MAX, QUEUE_MAX),
        })
    }

    /// The batch runs as a task of its own: if this actor panics, who waits for a reply still gets it.
    fn pump(&mut self, ctx: &mut MeteredContext<Self>) {
        if let Some(batch) = self.queue.take() {
            let task = actix_rt::spawn(book(self.parts.clone(), Arc::clone(&self.stats), batch));
            ctx.spawn(task.into_actor(self).map(|_, this, ctx| {
                this.queue.finished();
                this.pump(ctx);
            }));
        }
    }
}

impl Actor for CreditLedger {
    type Context = MeteredContext<Self>;
}

impl Supervised for CreditLedger {
    fn restarting(&mut self, _: &mut MeteredContext<Self>) {
        self.queue = GroupCommit::new(BATCH_MAX, QUEUE_MAX);
    }
}

impl Handler<Post> for CreditLedger {
    type Result = ResponseFuture<Booking>;

    fn handle(
        &mut self,
        Post(posting, span): Post,
        ctx: &mut MeteredContext<Self>,
    ) -> Self::Result {
        let (reply, outcome) = oneshot::channel();
        let waiting = Waiting {
            posting,
            span,
            reply,
        };
        if self.queue.push(waiting).is_err() {
            return Box::pin(async { Err(LedgerError::Busy) });
        }
        self.pump(ctx);
        Box::pin(async move { outcome.await.unwrap_or(Err(LedgerError::Unavailable)) })
    }
}

async fn book(parts: LedgerParts, stats: Arc<BatchStats>, batch: Vec<Waiting>) {
    let write_items = async |batch: &[Waiting]| {
        let postings: Vec<&Posting> = batch.iter().map(|waiting| &waiting.posting).collect();
        write(&parts, &postings).await
    };
    commit(batch, &stats, write_items, |batch, written| match written {
        Ok(written) => {
            parts.audience.tell(written.announced);
            let together = batch.len();
            for (mut waiting, outcome) in batch.into_iter().zip(written.outcomes) {
                waiting.is_done(together, outcome.as_ref().err());
                let _ = waiting.reply.send(outcome);
            }
        }
        Err(error) => {
            tracing::error!(%error, items = batch.len(), "the ledger could not write");
            let together = batch.len();
            for mut waiting in batch {
                waiting.is_done(together, Some(&LedgerError::Unavailable));
                let _ = waiting.reply.send(Err(LedgerError::Unavailable));
            }
        }
    })
    .await;
}
