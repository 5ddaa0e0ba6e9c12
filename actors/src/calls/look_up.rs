//! Looks up the calls that bridges report: whether they are known, and whom they are for.
//!
//! Simultaneous rings share a statement: while one is executed, the next ones collect.

use std::{
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dikala_entities::{
    AgentId, BridgeId, CallId, Millis, PhoneNumberId, Plan, Store, TenantId, store::is_transient,
};
use dikala_protocol::{CalledParty, CalleeNames};
use sea_orm::{DbErr, FromQueryResult, Statement, Value};
use tokio::sync::oneshot;

use super::{
    error::{CallError, unavailable},
    versions::PresentVersion,
};
use crate::runtime::group_commit::GroupCommit;

/// Rings per statement. Each count is a separate prepared statement in the database.
const TOGETHER_MAX: usize = 32;
/// Waiting rings. Beyond that callers get [`CallError::Busy`].
const WAITING_MAX: usize = 16_384;

/// A call by the bridge's id, and the called side.
#[derive(Clone, Debug)]
pub(super) struct RingingCall {
    pub(super) bridge: BridgeId,
    pub(super) bridge_call: String,
    pub(super) called: CalledParty,
}

/// The result of a look-up.
#[derive(Debug)]
pub(super) enum LookUpResult {
    /// The bridge reported it before.
    Known(CallId),
    New(Box<Callee>),
    /// No tenant has the number or the agent.
    Unknown,
    /// A call from a browser, of a bridge that may not report any.
    NotWeb,
}

/// The called side: number and agent, and their tenant.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    pub(super) tenant: TenantId,
    pub(super) plan: Plan,
    pub(super) is_suspended: bool,
    /// Overrides the plan's limit of concurrent calls.
    pub(super) max_concurrent: Option<i64>,
    /// `None` for a call from a browser.
    pub(super) number: Option<PhoneNumberId>,
    pub(super) number_active: bool,
    pub(super) agent: Option<PresentVersion>,
    /// Settings that are tried and not saved, as JSON, in place of the agent's own.
    pub(super) draft: Option<String>,
    pub(super) agent_active: bool,
    pub(super) names: CalleeNames,
}

/// Looks rings up in batches; cheap to clone.
#[derive(Clone)]
pub(super) struct LookUps {
    store: Store,
    waiting: Arc<Mutex<GroupCommit<QueuedRing>>>,
}

struct QueuedRing {
    ring: RingingCall,
    answer: oneshot::Sender<Result<LookUpResult, CallError>>,
}

impl LookUps {
    pub(super) fn new(store: Store) -> Self {
        let waiting = GroupCommit::new(TOGETHER_MAX, WAITING_MAX);
        Self {
            store,
            waiting: Arc::new(Mutex::new(waiting)),
        }
    }

    /// Finds the call if it is known, else the callee.
    pub(super) async fn look_up(&self, ring: RingingCall) -> Result<LookUpResult, CallError> {
        let (answer, answered) = oneshot::channel();
        let waiting = QueuedRing { ring, answer };
        let batch = {
            let mut queue = self.queue();
            queue.push(waiting).map_err(|_| CallError::Busy)?;
            queue.take()
        };
        if let Some(batch) = batch {
            // Spawned, because the batch serves other callers and must survive this caller's cancellation.
            let run = LookUpRun {
                look_ups: self.clone(),
                is_over: false,
            };
            actix_rt::spawn(run.take(batch));
        }
        answered.await.map_err(|_| CallError::Unavailable)?
    }

    fn queue(&self) -> MutexGuard<'_, GroupCommit<QueuedRing>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, batch: Vec<QueuedRing>) {
        let rings: Vec<&RingingCall> = batch.iter().map(|waiting| &waiting.ring).collect();
        match find(&self.store, &rings).await {
            Ok(found) => {
                for (waiting, found) in batch.into_iter().zip(found) {
                    // The caller may be gone.
                    let _ = waiting.answer.send(Ok(found));
                }
            }
            // One ring that the database refuses must not fail the others.
            Err(error) if batch.len() > 1 && !is_transient(&error) => {
                for waiting in batch {
                    let found = find(&self.store, &[&waiting.ring]).await;
                    let found = found.map_err(unavailable).and_then(only);
                    let _ = waiting.answer.send(found);
                }
            }
            Err(error) => {
                let refusal = unavailable(error);
                for waiting in batch {
                    let _ = waiting.answer.send(Err(refusal));
                }
            }
        }
    }
}

fn only(found: Vec<LookUpResult>) -> Result<LookUpResult, CallError> {
    found.into_iter().next().ok_or(CallError::Unavailable)
}

/// The running look-up: one statement after the other until no ring waits.
struct LookUpRun {
    look_ups: LookUps,
    is_over: bool,
}

impl LookUpRun {
    async fn take(mut self, mut batch: Vec<QueuedRing>) {
        loop {
            self.look_ups.answer(batch).await;
            let mut queue = self.look_ups.queue();
            queue.finished();
            match queue.take() {
                Some(next) => batch = next,
                None => break,
            }
        }
        self.is_over = true;
    }
}

impl Drop for LookUpRun {
    /// If its thread ends, waiting callers get an error, and the next ring starts a new look-up.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut queue = self.look_ups.queue();
        queue.finished();
        while queue.take().is_some() {
            queue.finished();
        }
    }
}

#[derive(FromQueryResult)]
struct Row {
    place: i64,
    known: Option<CallId>,
    number: Option<PhoneNumberId>,
    number_active: Option<bool>,
    tenant: Option<TenantId>,
    plan: Option<Plan>,
    suspended_at: Option<Millis>,
    max_concurrent: Option<i64>,
    agent: Option<AgentId>,
    agent_version: Option<i64>,
    agent_hash: Option<String>,
    agent_active: Option<bool>,
    /// Of the bridge that reports a call to an agent.
    is_web: Option<bool>,
    draft: Option<String>,
    business_name: Option<String>,
    number_label: Option<String>,
}

impl Row {
    fn found(self) -> LookUpResult {
        if let Some(known) = self.known {
            return LookUpResult::Known(known);
        }
        if self.is_web == Some(false) {
            return LookUpResult::NotWeb;
        }
        let (Some(tenant), Some(plan)) = (self.tenant, self.plan) else {
            return LookUpResult::Unknown;
        };
        LookUpResult::New(Box::new(Callee {
            tenant,
            plan,
            is_suspended: self.suspended_at.is_some(),
            max_concurrent: self.max_concurrent,
            number: self.number,
            number_active: self.number.is_none() || self.number_active.unwrap_or_default(),
            agent: self
                .agent
                .zip(self.agent_version)
                .map(|(agent, number)| PresentVersion {
                    agent,
                    number,
                    hash: self.agent_hash,
                }),
            agent_active: self.agent_active.unwrap_or_default(),
            draft: self.draft,
            names: names(self.business_name, self.number_label),
        }))
    }
}

/// An empty label is none.
pub(super) fn names(business_name: Option<String>, number_label: Option<String>) -> CalleeNames {
    CalleeNames {
        business_name,
        number_label: number_label.filter(|label| !label.is_empty()),
    }
}

/// Looks rings up, in their order, by keys in one statement. Each statement costs a round trip to a remote database.
async fn find(store: &Store, rings: &[&RingingCall]) -> Result<Vec<LookUpResult>, DbErr> {
    let mut reported = String::new();
    let mut values: Vec<Value> = Vec::with_capacity(rings.len() * 4);
    for (place, ring) in rings.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let first = values.len() + 1;
        let _ = write!(
            reported,
            "{comma}({place}, ${first}, ${}, ${}, ${})",
            first + 1,
            first + 2,
            first + 3
        );
        let (did, agent) = match &ring.called {
            CalledParty::Number(did) => (Some(did.as_str().to_owned()), None),
            CalledParty::Agent(agent) => (None, Some(agent.to_string())),
        };
        values.push(ring.bridge.into());
        values.push(ring.bridge_call.clone().into());
        values.push(did.into());
        values.push(agent.into());
    }
    let sql = format!(
        "WITH reported(place, bridge, bridge_call, did, agent) AS (VALUES {reported}) \
         SELECT CAST(reported.place AS BIGINT) AS place, \
         (SELECT c.id FROM calls c WHERE c.bridge_id = reported.bridge AND c.bridge_call_id = reported.bridge_call \
         LIMIT 1) AS known, \
         n.id AS number, n.is_active AS number_active, t.id AS tenant, t.plan AS plan, t.suspended_at AS suspended_at, \
         t.max_concurrent_calls AS max_concurrent, a.id AS agent, a.version AS agent_version, v.hash AS agent_hash, \
         a.is_active AS agent_active, b.is_web AS is_web, w.settings AS draft, t.name AS business_name, n.label AS number_label \
         FROM reported LEFT JOIN phone_numbers n ON n.did = reported.did \
         LEFT JOIN bridges b ON b.id = reported.bridge AND reported.agent IS NOT NULL \
         LEFT JOIN agents a ON a.id = COALESCE(reported.agent, n.agent_id) AND (reported.agent IS NOT NULL OR a.tenant_id = n.tenant_id) \
         LEFT JOIN tenants t ON t.id = COALESCE(n.tenant_id, a.tenant_id) \
         LEFT JOIN agent_versions v ON v.agent_id = a.id AND v.version = a.version \
         LEFT JOIN web_calls w ON w.hash = reported.bridge_call AND w.agent_id = reported.agent ORDER BY reported.place"
    );
    let look = Statement::from_sql_and_values(store.backend(), sql, values);
    let rows = Row::find_by_statement(look)
        .all(store.critical_reader())
        .await?;
    if !rows.iter().map(|row| row.place).eq((0..).take(rings.len())) {
        return Err(DbErr::Custom(
            "rings were not looked up one by one".to_owned(),
        ));
    }
    Ok(rows.into_iter().map(Row::found).collect())
}

#[cfg(test)]
mod tests {
    use dikala_testkit::{both, postgres};
    use futures_util::future::join_all;
    use sea_orm::ConnectionTrait;

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    fn did(n: usize) -> String {
        format!("+62215000{n:04}")
    }

    /// A tenant with `numbers` numbers, and a call of the bridge with the id `known`.
    async fn fill(store: &Store, bridge: BridgeId, numbers: usize) -> (Vec<PhoneNumberId>, CallId) {
        let (tenant, known) = (TenantId::new(NOW), CallId::new(NOW));
        let ids: Vec<_> = (0..numbers).map(|_| PhoneNumberId::new(NOW)).collect();
        let mut statements = vec![format!(
            "INSERT INTO tenants (id, name, plan, max_concurrent_calls, created_at, updated_at, \
             function_secret) VALUES ('{tenant}', 'T', 'business', 7, 1, 1, 's')"
        )];
        for (n, id) in ids.iter().enumerate() {
            statements.push(format!(
                "INSERT INTO phone_numbers (id, tenant_id, did, label, is_active, created_at, updated_at) \
                 VALUES ('{id}', '{tenant}', '{}', 'L', {}, 1, 1)",
                did(n),
                if n % 2 == 0 { "TRUE" } else { "FALSE" }
            ));
        }
        statements.push(format!(
            "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, caller_number, callee_number, status, \
             started_at, metadata, last_sign_at, owner, epoch) VALUES ('{known}', '{tenant}', '{bridge}', 'known', '{}', 'x', \
             '{}', 'ringing', 1, '{{}}', 1, 'n', 1)",
            ids[0],
            did(0)
        ));
        for sql in statements {
            let inserted = store.writer().execute_unprepared(&sql).await;
            inserted.expect("inserts");
        }
        (ids, known)
    }

    fn ring(bridge: BridgeId, bridge_call: &str, did: &str) -> RingingCall {
        RingingCall {
            bridge,
            bridge_call: bridge_call.to_owned(),
            called: CalledParty::Number(did.parse().expect("a number")),
        }
    }

    #[actix::test]
    async fn each_of_many_that_ring_together_gets_its_own_answer() {
        for (_keep, store) in both().await {
            let bridge = BridgeId::new(NOW);
            let (ids, known) = fill(&store, bridge, 100).await;
            let look_ups = LookUps::new(store);
            let rings = (0..300).map(|n| match n % 3 {
                0 => look_ups.look_up(ring(bridge, "known", &did(n / 3))),
                1 => look_ups.look_up(ring(bridge, &format!("new {n}"), &did(n / 3))),
                _ => look_ups.look_up(ring(bridge, &format!("new {n}"), "+62219999999")),
            });
            for (n, found) in join_all(rings).await.into_iter().enumerate() {
                match (n % 3, found.expect("is looked up")) {
                    (0, LookUpResult::Known(call)) => assert_eq!(call, known),
                    (1, LookUpResult::New(callee)) => {
                        assert_eq!(callee.number, Some(ids[n / 3]));
                        assert_eq!(callee.number_active, (n / 3) % 2 == 0);
                        assert_eq!(
                            (callee.plan, callee.max_concurrent),
                            (Plan::Business, Some(7))
                        );
                        assert_eq!(
                            callee.names,
                            names(Some("T".to_owned()), Some("L".to_owned()))
                        );
                    }
                    (2, LookUpResult::Unknown) => {}
                    (_, found) => panic!("{n}: {found:?}"),
                }
            }
        }
    }

    /// PostgreSQL refuses text with a NUL.
    #[actix::test]
    async fn a_ring_that_the_database_refuses_fails_alone() {
        let Some((_keep, store)) = postgres().await else {
            return;
        };
        let bridge = BridgeId::new(NOW);
        fill(&store, bridge, 1).await;
        let look_ups = LookUps::new(store);
        let rings = (0..10).map(|n| {
            let name = if n == 5 { "a\0b" } else { "new" };
            look_ups.look_up(ring(bridge, name, &did(0)))
        });
        for (n, found) in join_all(rings).await.into_iter().enumerate() {
            match found {
                Err(CallError::Unavailable) => assert_eq!(n, 5),
                found => assert!(matches!(found, Ok(LookUpResult::New(_))), "{n}: {found:?}"),
            }
        }
    }

    #[actix::test]
    async fn a_look_up_that_died_is_replaced_by_the_next() {
        let (_keep, store) = dikala_testkit::sqlite().await;
        let bridge = BridgeId::new(NOW);
        fill(&store, bridge, 1).await;
        let look_ups = LookUps::new(store);
        let (mut batch, mut answers) = (Vec::new(), Vec::new());
        for n in 0..2 {
            let (answer, answered) = oneshot::channel();
            let ring = ring(bridge, "new", &did(0));
            answers.push(answered);
            let pushed = look_ups.queue().push(QueuedRing { ring, answer });
            assert!(pushed.is_ok());
            if n == 0 {
                batch = look_ups.queue().take().expect("the first has the turn");
            }
        }
        let run = LookUpRun {
            look_ups: look_ups.clone(),
            is_over: false,
        };
        // A thread that ends drops its futures like this.
        drop(run.take(batch));
        for answered in answers {
            assert!(answered.await.is_err(), "whoever waited is told");
        }
        let next = look_ups.look_up(ring(bridge, "new", &did(0))).await;
        assert!(matches!(next, Ok(LookUpResult::New(_))), "{next:?}");
    }
}
