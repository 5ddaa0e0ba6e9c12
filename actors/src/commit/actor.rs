//! The ledger's actor. It gathers items while a batch is written, and replies after the commit. Items of tenants with locked
//! rows wait aside and do not delay the others.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Handler, Message, Supervised};
use actix_rt::ArbiterHandle;
use dikala_entities::{CallId, Store, TenantId, store::Durability};
use sea_orm::DbErr;
use tokio::sync::oneshot;

use super::{
    CommitDeps, LedgerError, PostingOutcome,
    batch::Posting,
    locked::{locked, queue_for_rows, write_unlocked},
    remembered::RememberedRows,
};
use crate::{
    metered,
    runtime::{
        context::{Metered, MeteredContext, OnPanic},
        group_commit::{BatchStats, GroupCommit, TRY_FOR, commit},
    },
    traces::Span,
};

/// Items in one transaction.
pub const BATCH_MAX: usize = 256;
/// Waiting items. Beyond that, callers get [`LedgerError::Busy`].
const QUEUE_MAX: usize = 16_384;
const MAILBOX: usize = 4_096;
/// Interval between checks of locked rows.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Books and writes the posting. `reply` gets the outcome when it is durable, straight from the task that committed it: a
/// reply of the handler's would pass two more tasks.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct WritePosting {
    pub(super) posting: Posting,
    /// Set if the request is traced.
    pub(super) span: Option<Span>,
    pub(super) reply: PostingReply,
}

/// Takes a posting's outcome, and counts it if it is an error. Dropped without one, it means [`LedgerError::Unavailable`].
pub(super) struct PostingReply(Option<oneshot::Sender<PostingOutcome>>);

impl PostingReply {
    pub(super) fn new() -> (Self, oneshot::Receiver<PostingOutcome>) {
        let (reply, outcome) = oneshot::channel();
        (Self(Some(reply)), outcome)
    }

    fn send(mut self, outcome: PostingOutcome) {
        if outcome.is_err() {
            Self::count_error();
        }
        if let Some(reply) = self.0.take() {
            // The sender may have stopped waiting.
            let _ = reply.send(outcome);
        }
    }

    fn count_error() {
        CreditLedger::meter().message::<WritePosting>().failed();
    }
}

impl Drop for PostingReply {
    fn drop(&mut self) {
        if self.0.is_some() {
            Self::count_error();
        }
    }
}

struct QueuedPosting {
    request: WritePosting,
    since: Instant,
}

impl QueuedPosting {
    fn posting(&self) -> &Posting {
        &self.request.posting
    }

    fn refuse(self, error: LedgerError) {
        self.answer(1, Err(error));
    }

    /// Ends the span and replies. `together` is the number of items in the transaction.
    fn answer(self, together: usize, outcome: PostingOutcome) {
        let WritePosting { span, reply, .. } = self.request;
        if let Some(mut span) = span {
            let together = i64::try_from(together).unwrap_or(i64::MAX);
            span.count("dikala.batch.items", together);
            if let Err(error) = &outcome {
                span.failed(error.to_string());
            }
            span.end();
        }
        reply.send(outcome);
    }
}

/// One shard of the ledger.
pub struct CreditLedger {
    deps: CommitDeps,
    stats: Arc<BatchStats>,
    queue: GroupCommit<QueuedPosting>,
    remembered: Arc<Mutex<RememberedRows>>,
    /// Tenants whose rows another session had locked at the last check.
    locked: BTreeSet<TenantId>,
    /// Postings of those tenants, waiting for the locks.
    aside: Vec<QueuedPosting>,
    is_looking: bool,
    /// Number of checks so far; selects the tenant to queue for.
    looks: usize,
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
        deps: CommitDeps,
        stats: Arc<BatchStats>,
    ) -> Addr<Self> {
        MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| Self {
            deps,
            stats,
            queue: GroupCommit::new(BATCH_MAX, QUEUE_MAX),
            remembered: Arc::default(),
            locked: BTreeSet::new(),
            aside: Vec::new(),
            is_looking: false,
            looks: 0,
        })
    }

    /// Runs the batch as a task that outlives this actor: if the actor panics, callers still get their replies.
    fn pump(&mut self, ctx: &mut MeteredContext<Self>) {
        if let Some(batch) = self.queue.take() {
            let (deps, remembered) = (self.deps.clone(), Arc::clone(&self.remembered));
            let task = actix_rt::spawn(book(deps, remembered, Arc::clone(&self.stats), batch));
            ctx.task(task, |aside, this, ctx| {
                this.queue.finished();
                let mut aside = aside.unwrap_or_default();
                let tenants = aside.iter().map(|waiting| waiting.posting().tenant());
                this.locked.extend(tenants);
                this.aside.append(&mut aside);
                this.look(ctx);
                this.pump(ctx);
            });
        }
    }

    /// Checks locked tenants repeatedly, as long as there are any.
    fn look(&mut self, ctx: &mut MeteredContext<Self>) {
        if self.is_looking || self.locked.is_empty() {
            return;
        }
        self.is_looking = true;
        self.looks += 1;
        let (store, tenants, turn) = (self.deps.store.clone(), self.locked.clone(), self.looks);
        let waits = self.aside.iter().map(QueuedPosting::posting);
        let calls: Vec<(TenantId, CallId)> = waits
            .filter_map(|posting| Some((posting.tenant(), posting.call()?)))
            .collect();
        let look = async move {
            tokio::time::sleep(LOOK_EVERY).await;
            let still = still_locked(&store, &tenants, &calls, turn).await;
            (tenants, still)
        };
        ctx.task(look, |(tenants, still), this, ctx| {
            this.is_looking = false;
            this.locks_checked(&tenants, still);
            this.look(ctx);
            this.pump(ctx);
        });
    }

    fn locks_checked(
        &mut self,
        tenants: &BTreeSet<TenantId>,
        still: Result<BTreeSet<TenantId>, DbErr>,
    ) {
        match still {
            Ok(still) => self
                .locked
                .retain(|tenant| still.contains(tenant) || !tenants.contains(tenant)),
            Err(error) => tracing::debug!(%error, "could not check whether rows are still locked"),
        }
        for waiting in std::mem::take(&mut self.aside) {
            if !self.locked.contains(&waiting.posting().tenant()) {
                if let Err(waiting) = self.queue.push(waiting) {
                    waiting.refuse(LedgerError::Unavailable);
                }
            } else if waiting.since.elapsed() > TRY_FOR {
                waiting.refuse(LedgerError::Unavailable);
            } else {
                self.aside.push(waiting);
            }
        }
    }
}

impl Actor for CreditLedger {
    type Context = MeteredContext<Self>;
}

impl Supervised for CreditLedger {
    fn restarting(&mut self, _: &mut MeteredContext<Self>) {
        self.queue = GroupCommit::new(BATCH_MAX, QUEUE_MAX);
        // A batch of before may still be writing.
        self.remembered = Arc::default();
        self.locked.clear();
        self.aside.clear();
        self.is_looking = false;
    }
}

impl Handler<WritePosting> for CreditLedger {
    type Result = ();

    fn handle(&mut self, request: WritePosting, ctx: &mut MeteredContext<Self>) {
        let waiting = QueuedPosting {
            request,
            since: Instant::now(),
        };
        if self.locked.contains(&waiting.posting().tenant()) && self.aside.len() < QUEUE_MAX {
            self.aside.push(waiting);
        } else if let Err(waiting) = self.queue.push(waiting) {
            waiting.refuse(LedgerError::Busy);
        }
        self.pump(ctx);
    }
}

/// Returns the tenants whose rows are still locked. Queues for the rows of one of them, a different one in each turn.
async fn still_locked(
    store: &Store,
    tenants: &BTreeSet<TenantId>,
    calls: &[(TenantId, CallId)],
    turn: usize,
) -> Result<BTreeSet<TenantId>, DbErr> {
    let ids: Vec<CallId> = calls.iter().map(|(_, call)| *call).collect();
    let mut still = locked(store, tenants, &ids).await?;
    let next = turn.checked_rem(still.len());
    if let Some(one) = next.and_then(|at| still.iter().nth(at).copied()) {
        let calls_of_one = calls.iter().filter(|(tenant, _)| *tenant == one);
        let calls_of_one: Vec<CallId> = calls_of_one.map(|(_, call)| *call).collect();
        if queue_for_rows(store, one, &calls_of_one).await? {
            still.remove(&one);
        }
    }
    Ok(still)
}

/// Writes a batch. Returns the postings that could not be written because their tenant's rows are locked.
async fn book(
    deps: CommitDeps,
    remembered: Arc<Mutex<RememberedRows>>,
    stats: Arc<BatchStats>,
    batch: Vec<QueuedPosting>,
) -> Vec<QueuedPosting> {
    let mut aside = Vec::new();
    let whole = batch.len();
    let write_items = async |batch: &[QueuedPosting]| {
        // A posting alone waits for the disk in its commit, which is one round trip less. Several do not, so that their rows
        // are locked for a shorter time.
        let durable = match batch.len() {
            1 => Durability::OnReturn,
            size if size < whole => Durability::OnReturn,
            _ => Durability::AfterConfirm,
        };
        let postings: Vec<&Posting> = batch.iter().map(QueuedPosting::posting).collect();
        write_unlocked(&deps, &remembered, &postings, durable).await
    };
    commit(batch, &stats, write_items, |batch, written| match written {
        Ok(written) => {
            let together = batch.len();
            for (waiting, outcome) in batch.into_iter().zip(written.outcomes) {
                match outcome {
                    Some(outcome) => waiting.answer(together, outcome),
                    None => aside.push(waiting),
                }
            }
            deps.recipients.tell(written.announced);
        }
        Err(error) => {
            tracing::error!(%error, items = batch.len(), "the ledger could not write");
            let together = batch.len();
            for waiting in batch {
                waiting.answer(together, Err(LedgerError::Unavailable));
            }
        }
    })
    .await;
    aside
}
