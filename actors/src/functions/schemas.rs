//! An invoker's compiled schemas and the validation of arguments. Slow work runs off the invoker's thread, which
//! serves other tenants, and one at a time per tenant.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use dikala_entities::TenantId;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::{FaultCode, Outcome, schema::Schema};

/// Maximum number of nodes of all kept schemas. A pattern counts as 80, so they use some tens of megabytes at most.
const KEPT_NODES_MAX: u32 = 20_000;
/// Steps of a validation on the invoker's own thread: below a few milliseconds, and enough for ordinary arguments.
const STEPS_AT_ONCE_MAX: u32 = 4_000;

/// A compiled schema, or the reason why it cannot be used.
type Compiled = Arc<Result<Schema, String>>;

/// Compiled schemas by their text, and a semaphore per tenant for slow validations.
#[derive(Debug, Default)]
pub(super) struct CompiledSchemas {
    kept: RefCell<SchemaCache>,
    turns: RefCell<HashMap<TenantId, Arc<Semaphore>>>,
}

#[derive(Debug, Default)]
struct SchemaCache {
    by_text: HashMap<Arc<str>, Compiled>,
    nodes: u32,
}

impl CompiledSchemas {
    /// Validates arguments. The error is the outcome for the AI.
    pub(super) async fn check(
        &self,
        tenant: TenantId,
        text: &Arc<str>,
        arguments: &Map<String, Value>,
    ) -> Result<(), Outcome> {
        let compiled = self.compiled(tenant, text).await?;
        let checked = match &*compiled {
            Ok(schema) => match schema.check_within(STEPS_AT_ONCE_MAX, arguments) {
                Some(checked) => checked,
                None => {
                    let (compiled, arguments) = (Arc::clone(&compiled), arguments.clone());
                    let work = move || match &*compiled {
                        Ok(schema) => schema.check(&arguments),
                        Err(reason) => Err(reason.clone()),
                    };
                    self.beside(tenant, work).await?
                }
            },
            Err(reason) => Err(format!(
                "The function's parameters schema cannot be used: {reason}. Write it again within what is taken."
            )),
        };
        checked.map_err(|sentence| Outcome::error(FaultCode::InvalidArguments, sentence))
    }

    async fn compiled(&self, tenant: TenantId, text: &Arc<str>) -> Result<Compiled, Outcome> {
        let known = self.kept.borrow().by_text.get(text).cloned();
        if let Some(compiled) = known {
            return Ok(compiled);
        }
        // Compiling a pattern can take milliseconds.
        let wanted = Arc::clone(text);
        let compiled = Arc::new(self.beside(tenant, move || compile(&wanted)).await?);
        self.keep(text, &compiled);
        Ok(compiled)
    }

    /// Runs slow work on another thread, one at a time per tenant. The permit lasts until the work is over, even if
    /// the caller stops waiting.
    async fn beside<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Outcome> {
        let turns = {
            let mut all = self.turns.borrow_mut();
            // Keeps only semaphores in use.
            all.retain(|_, turns| Arc::strong_count(turns) > 1);
            Arc::clone(
                all.entry(tenant)
                    .or_insert_with(|| Arc::new(Semaphore::new(1))),
            )
        };
        let turn = turns.acquire_owned().await.map_err(|_| Outcome::busy())?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(turn);
            result
        });
        done.await.map_err(|_| Outcome::busy())
    }

    fn keep(&self, text: &Arc<str>, compiled: &Compiled) {
        let nodes = compiled.as_ref().as_ref().map_or(1, Schema::nodes);
        let mut kept = self.kept.borrow_mut();
        if kept.nodes.saturating_add(nodes) > KEPT_NODES_MAX {
            *kept = SchemaCache::default();
        }
        if kept
            .by_text
            .insert(Arc::clone(text), Arc::clone(compiled))
            .is_none()
        {
            kept.nodes += nodes;
        }
    }
}

fn compile(text: &str) -> Result<Schema, String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Schema::new(&schema).map_err(|faults| {
        faults.first().map_or_else(String::new, |fault| {
            format!("parameters{} {}", fault.at, fault.predicate)
        })
    })
}
