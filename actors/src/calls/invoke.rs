//! A function invocation during a call. It waits for the tenant's endpoint without blocking the call.

use std::{sync::Arc, time::Instant};

use dikala_entities::{CallId, CallStatus, FunctionId, SecretPlace, call, invocation, tenant};
use sea_orm::EntityTrait;
use serde_json::Value;

use super::{
    claims::{InvocationClaim, claim},
    deps::CallDeps,
    error::{CallError, not_written, unavailable},
    events,
    messages::InvokeFunction,
    owned,
    settings::CallSettings,
    versions,
};
use crate::{
    commit::CommitEntry,
    functions::{FunctionSpec, InvocationReport, InvocationSpan, Invoke, Outcome},
    ledger::LedgerError,
    outbound::{ErrorKind, Permission},
};

/// Tries to write an outcome, [`AGAIN_AFTER_MS`] apart. By then the bridge has given up.
const TRIES_MAX: u32 = 600;
/// Checks for the outcome of an invocation that another process carries out, [`LOOK_MS`] apart.
const LOOKS_MAX: usize = 120;
const LOOK_MS: i64 = 250;
const AGAIN_AFTER_MS: i64 = 1_000;

/// The result of an invocation.
pub(super) enum InvocationResult {
    /// The outcome, committed with its event; or the reason for having none.
    Answered(Result<Value, CallError>),
    /// The endpoint was called, but its outcome cannot be written now. The endpoint must not be called again.
    Unwritten(CallError, Box<UnwrittenOutcome>),
}

/// An outcome that is not written yet, with its entry.
pub(super) struct UnwrittenOutcome {
    outcome: Value,
    entry: CommitEntry,
    tries: u32,
    /// The call has or had another owner meanwhile, so the stored outcome may be another node's.
    has_moved: bool,
    /// Held until the outcome is written.
    claim: InvocationClaim,
}

impl UnwrittenOutcome {
    /// Waits a moment and writes again.
    pub(super) async fn again(self: Box<Self>, deps: &CallDeps) -> InvocationResult {
        let at = deps.clock.now().plus_ms(AGAIN_AFTER_MS);
        deps.clock.sleep_until(at).await;
        self.write(deps).await
    }

    /// Adopts the call's current owner after a conflict. The call may have moved to another node during the invocation, and its
    /// bridge waits there for the outcome. False if the owner is unchanged or the call was erased.
    async fn follow(&mut self, deps: &CallDeps) -> Result<bool, CallError> {
        let Some((invocation, fence)) = &mut self.entry.invocation else {
            return Ok(false);
        };
        let row = call::Entity::find_by_id(invocation.call_id)
            .one(deps.store.critical_reader())
            .await
            .map_err(unavailable)?;
        let Some(row) = row.filter(|row| !row.is_erased()) else {
            return Ok(false);
        };
        let now = owned::fence(&row);
        let has_moved = *fence != now;
        *fence = now;
        self.has_moved |= has_moved;
        Ok(has_moved)
    }

    /// The outcome in the store, whichever node wrote it.
    async fn told(self, deps: &CallDeps) -> Result<Value, CallError> {
        if let Some((invocation, _)) = self.entry.invocation.filter(|_| self.has_moved)
            && let Some(stands) = known(deps, invocation.call_id, &invocation.invocation_id).await?
        {
            return Ok(stands);
        }
        Ok(self.outcome)
    }

    /// If the commit's outcome is unknown, writing again is harmless.
    async fn write(mut self: Box<Self>, deps: &CallDeps) -> InvocationResult {
        self.tries += 1;
        match deps.ledger.write(self.entry.clone()).await {
            Ok(()) => {
                self.claim.mark_done();
                InvocationResult::Answered(self.told(deps).await)
            }
            Err(LedgerError::Conflict) => match self.follow(deps).await {
                Ok(true) => InvocationResult::Unwritten(CallError::Busy, self),
                Ok(false) => InvocationResult::Answered(Err(CallError::Busy)),
                Err(error) => InvocationResult::Unwritten(error, self),
            },
            Err(error) if self.tries < TRIES_MAX => {
                InvocationResult::Unwritten(not_written(error), self)
            }
            Err(error) => {
                let call = self.entry.invocation.as_ref().map(|(made, _)| made.call_id);
                let call = call.map(tracing::field::display);
                tracing::error!(call, %error, "could not store the outcome of a function; it is given up");
                InvocationResult::Answered(Err(not_written(error)))
            }
        }
    }
}

/// Invokes a function once: a repeat of the same invocation gets the same outcome. It is committed with its event before it is
/// returned.
pub(super) async fn invoke(
    deps: Arc<CallDeps>,
    row: call::Model,
    message: InvokeFunction,
) -> InvocationResult {
    match outcome(&deps, row, message).await {
        Ok(InvocationOutcome::Before(outcome)) => InvocationResult::Answered(Ok(outcome)),
        Ok(InvocationOutcome::Now(unwritten)) => match unwritten.write(&deps).await {
            // The call moved during the invocation. Its owner is known now, so write at once.
            InvocationResult::Unwritten(CallError::Busy, unwritten) => unwritten.write(&deps).await,
            invocation => invocation,
        },
        Err(error) => InvocationResult::Answered(Err(error)),
    }
}

enum InvocationOutcome {
    Before(Value),
    Now(Box<UnwrittenOutcome>),
}

async fn outcome(
    deps: &CallDeps,
    row: call::Model,
    message: InvokeFunction,
) -> Result<InvocationOutcome, CallError> {
    let mut claim = match begin(deps, &row, &message.invocation_id).await? {
        Ok(claim) => claim,
        Err(before) => return Ok(InvocationOutcome::Before(before)),
    };
    let (function, invoked) = run(deps, &row, &message, &mut claim).await?;
    let result = invoked.outcome.event_result();
    let outcome = serde_json::to_value(&invoked.outcome).map_err(|_| CallError::Unavailable)?;
    let now = deps.clock.now();
    let entry = CommitEntry {
        events: vec![events::function_called(
            &row,
            &message.name,
            &message.parameters,
            &result,
            now,
        )],
        invocation: Some((
            invocation::Model {
                call_id: row.id,
                invocation_id: message.invocation_id,
                tenant_id: row.tenant_id,
                function_name: message.name,
                outcome: outcome.to_string(),
                duration_ms: invoked.duration_ms,
                created_at: now,
                function_id: function,
                fault: invoked.outcome.fault().map(|code| code.as_str().to_owned()),
            },
            owned::fence(&row),
        )),
        ..CommitEntry::of(row.tenant_id)
    };
    Ok(InvocationOutcome::Now(Box::new(UnwrittenOutcome {
        outcome,
        entry,
        tries: 0,
        has_moved: false,
        claim,
    })))
}

/// Reads the stored outcome.
async fn known(
    deps: &CallDeps,
    call: CallId,
    invocation: &str,
) -> Result<Option<Value>, CallError> {
    let read_at = Instant::now();
    let known = invocation::Entity::find_by_id((call, invocation.to_owned()))
        .one(deps.store.critical_reader())
        .await
        .map_err(unavailable)?;
    if known.is_some() {
        deps.store.confirm(read_at).await.map_err(unavailable)?;
    }
    known
        .map(|known| serde_json::from_str(&known.outcome).map_err(|_| CallError::Unavailable))
        .transpose()
}

/// Claims the invocation, or returns its outcome. Waits while another process carries it out.
async fn begin(
    deps: &CallDeps,
    row: &call::Model,
    invocation: &str,
) -> Result<Result<InvocationClaim, Value>, CallError> {
    for _ in 0..LOOKS_MAX {
        if let Some(outcome) = known(deps, row.id, invocation).await? {
            return Ok(Err(outcome));
        }
        if row.status != CallStatus::Answered {
            let status = row.status;
            // Another owner may know that it was answered.
            let has_moved = !status.is_final() && !owned::runs_here(deps, row).await?;
            return Err(match has_moved {
                true => CallError::Moved,
                false => CallError::InvalidTransition { status },
            });
        }
        if !deps.node.acts() {
            return Err(CallError::Unavailable);
        }
        let claimed = claim(deps, row.id, invocation).await;
        if let Some(claim) = claimed.map_err(unavailable)? {
            // The previous claimant may have written the outcome before it released the claim.
            let written = known(deps, row.id, invocation).await?;
            return Ok(written.map_or(Ok(claim), Err));
        }
        let again = deps.clock.now().plus_ms(LOOK_MS);
        deps.clock.sleep_until(again).await;
    }
    Err(CallError::Busy)
}

/// The agent version that the call began with. It is too large to keep in memory during a call.
async fn settings(deps: &CallDeps, row: &call::Model) -> Result<Option<CallSettings>, CallError> {
    let db = deps.store.critical_reader();
    let stored = call::Entity::find_by_id(row.id).one(db).await;
    match stored.map_err(unavailable)? {
        // The call has another owner now. The outcome may not be known here.
        Some(stored) if owned::fence(&stored) != owned::fence(row) => Err(CallError::Moved),
        Some(stored) => versions::of_call(db, &stored).await.map_err(unavailable),
        None => Ok(None),
    }
}

/// Finds the function and invokes it. An interrupted invocation is not repeated.
async fn run(
    deps: &CallDeps,
    row: &call::Model,
    message: &InvokeFunction,
    claim: &mut InvocationClaim,
) -> Result<(Option<FunctionId>, InvocationReport), CallError> {
    let settings = settings(deps, row).await?;
    let function = settings
        .as_ref()
        .and_then(|settings| settings.function(&message.name));
    let Some(function) = function else {
        let unknown = Outcome::unknown_function(&message.name);
        return Ok((None, InvocationReport::at_once(unknown)));
    };
    if !function.enabled {
        let disabled = Outcome::disabled(&message.name);
        return Ok((function.id, InvocationReport::at_once(disabled)));
    }
    if claim.is_lost() {
        return Ok((
            function.id,
            InvocationReport::at_once(Outcome::interrupted()),
        ));
    }
    // The rules may have become stricter since it was stored.
    let Some(endpoint) = function.endpoint() else {
        let refused = Outcome::no_answer(ErrorKind::BlockedTarget);
        return Ok((function.id, InvocationReport::at_once(refused)));
    };
    let tenant = tenant::Entity::find_by_id(row.tenant_id)
        .one(deps.store.critical_reader())
        .await
        .map_err(unavailable)?
        .ok_or(CallError::Unavailable)?;
    let secret = deps
        .vault
        .open(
            SecretPlace::FunctionSecret,
            tenant.id,
            &tenant.function_secret,
        )
        .map_err(|error| {
            tracing::error!(call = %row.id, tenant = %tenant.id, %error, "could not open the tenant's function secret; the function is not invoked");
            CallError::Unavailable
        })?;
    let trace = message.trace.as_ref().or(row.traceparent.as_ref());
    let traced = InvocationSpan::begin(trace);
    let (node, claimant) = (deps.node.clone(), claim.node());
    let permission = Permission::only_while(move || node.acts_as(&claimant));
    let invoke = Invoke {
        call: row.id,
        tenant: row.tenant_id,
        agent: row.agent_id,
        function: FunctionSpec {
            name: function.name.clone(),
            endpoint,
            method: function.method,
            parameters: function.parameters.to_string().into(),
        },
        parameters: message.parameters.clone(),
        secret,
        is_test: false,
        traceparent: traced.traceparent.clone(),
        permission,
    };
    claim.mark_called();
    let invoked = deps.functions.invoke(invoke).await;
    traced.end(row.tenant_id, Some(row.id), function.id, &invoked);
    Ok((function.id, invoked))
}
