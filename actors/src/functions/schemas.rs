//! Compiled parameter schemas of one invoker.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use serde_json::{Map, Value};

use super::{FaultCode, Outcome, schema::Schema};

/// Nodes of all schemas that are kept. A pattern counts as 80 of them, and so all stay within some tens of megabytes.
const KEPT_NODES_MAX: u32 = 20_000;

/// A compiled schema, or why it cannot be used.
type Compiled = Arc<Result<Schema, String>>;

/// Compiled schemas by their text.
#[derive(Debug, Default)]
pub(super) struct Schemas(RefCell<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_text: HashMap<Arc<str>, Compiled>,
    nodes: u32,
}

impl Schemas {
    /// Whether the arguments fit the schema, or what the AI is told.
    pub async fn check(
        &self,
        text: &Arc<str>,
        arguments: &Map<String, Value>,
    ) -> Result<(), Outcome> {
        let known = self.0.borrow().by_text.get(text).cloned();
        let compiled = match known {
            Some(compiled) => compiled,
            None => {
                // Patterns can take milliseconds to compile, and other tenants' functions run on this thread.
                let wanted = Arc::clone(text);
                let compiled = tokio::task::spawn_blocking(move || compile(&wanted)).await;
                let compiled = Arc::new(compiled.map_err(|_| Outcome::busy())?);
                self.keep(text, &compiled);
                compiled
            }
        };
        let checked = match &*compiled {
            Ok(schema) => schema.check(arguments),
            Err(reason) => Err(format!(
                "The function's parameters schema cannot be used: {reason}. Write it again within what is taken."
            )),
        };
        checked.map_err(|sentence| Outcome::error(FaultCode::InvalidArguments, sentence))
    }

    fn keep(&self, text: &Arc<str>, compiled: &Compiled) {
        let nodes = compiled.as_ref().as_ref().map_or(1, Schema::nodes);
        let mut kept = self.0.borrow_mut();
        if kept.nodes.saturating_add(nodes) > KEPT_NODES_MAX {
            *kept = Kept::default();
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
