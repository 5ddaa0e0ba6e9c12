//! Operators' changes to the store: tenants, members, keys, numbers, bridges, calls, webhooks, secrets. The command
//! line and the operators' API both use it. Each function runs in a transaction of its own or in the caller's
//! ([`TransactionScope`]), and returns what the operator is shown.

pub mod bridges;
pub mod calls;
pub mod functions;
pub mod keys;
pub mod numbers;
pub mod secrets;
pub mod tenants;
pub mod users;
pub mod webhooks;

mod work;

#[cfg(test)]
mod tests;

use dikala_entities::{MINUTES_MAX, Store, TenantId, is_blank, is_one_line, tenant};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait, QuerySelect, SqlErr};

pub use self::work::TransactionScope;

/// The longest name or label, in characters.
pub const NAME_CHARS_MAX: usize = 120;

/// The reason why an operator's request failed; the message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("there is no {what} {id}; `dikala {what} list` shows those that are there")]
    NotFound { what: &'static str, id: String },
    #[error("{0}")]
    Refused(String),
    /// A unique value is in use already.
    #[error("{0}")]
    Taken(String),
    #[error("the database does not answer: {words}", words = dikala_entities::store::in_words(.0))]
    Database(#[from] DbErr),
}

impl AdminError {
    pub fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound {
            what,
            id: id.to_string(),
        }
    }
}

/// Checks a name or label: trimmed, one line, not too long. `http::extract::line` is the same rule.
fn name(field: &str, text: &str) -> Result<String, AdminError> {
    let text = text.trim();
    let length = text.chars().count();
    if is_blank(text) {
        Err(AdminError::Refused(format!(
            "{field} is blank; give one that can be seen"
        )))
    } else if !is_one_line(text) {
        Err(AdminError::Refused(format!(
            "{field} must not contain control characters; give one without them"
        )))
    } else if length <= NAME_CHARS_MAX {
        Ok(text.to_owned())
    } else {
        Err(AdminError::Refused(format!(
            "{field} must have 1 to {NAME_CHARS_MAX} characters; give a shorter or a longer one"
        )))
    }
}

fn in_range(field: &str, value: i64, least: i64) -> Result<i64, AdminError> {
    if (least..=MINUTES_MAX).contains(&value) {
        Ok(value)
    } else {
        Err(AdminError::Refused(format!(
            "{field} must be a whole number from {least} to {MINUTES_MAX}"
        )))
    }
}

/// Parses an id. Malformed ids are reported as not found.
pub fn parse_id<T: std::str::FromStr>(what: &'static str, text: &str) -> Result<T, AdminError> {
    text.parse().map_err(|_| AdminError::not_found(what, text))
}

/// Finds a tenant.
pub async fn find_tenant(
    db: &impl ConnectionTrait,
    id: TenantId,
) -> Result<tenant::Model, AdminError> {
    let found = tenant::Entity::find_by_id(id).one(db).await?;
    found.ok_or_else(|| AdminError::not_found("tenant", id))
}

/// Finds a tenant and locks its row until the transaction ends.
pub async fn lock_tenant(
    txn: &impl ConnectionTrait,
    id: TenantId,
) -> Result<tenant::Model, AdminError> {
    let found = tenant::Entity::find_by_id(id).lock_exclusive();
    let found = found.one(txn).await?;
    found.ok_or_else(|| AdminError::not_found("tenant", id))
}

/// Turns a violated unique constraint into [`AdminError::Taken`].
fn unless_taken(error: DbErr, sentence: impl FnOnce() -> String) -> AdminError {
    match error.sql_err() {
        Some(SqlErr::UniqueConstraintViolation(_)) => AdminError::Taken(sentence()),
        _ => AdminError::Database(error),
    }
}

/// Fails if there is no such tenant.
async fn require_tenant(store: &Store, id: TenantId) -> Result<(), AdminError> {
    find_tenant(store.reader(), id).await.map(drop)
}
