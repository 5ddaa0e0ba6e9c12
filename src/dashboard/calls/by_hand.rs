//! People and keys that ended or transferred a call by hand, according to the audit.

use std::collections::{HashMap, HashSet};

use dikala_entities::{Actor, AuditAction, CallId, HangupReason, Millis, audit};
use sea_orm::{ColumnTrait, QueryFilter};

use super::super::{names, view::SignedIn};
use crate::{audit::AuditQuery, http::error::ApiError};

/// A requested act counts for a call's end within this time, in milliseconds.
const BEFORE_THE_END_MS: i64 = 2 * 60 * 1_000;

/// Tolerated clock difference: the telephony dates the end of a call.
const CLOCKS_APART_MS: i64 = 10_000;

/// Somebody who ended or transferred a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualAct {
    /// The name of the person or of the key; none if it is no longer known.
    pub name: Option<String>,
    /// The masked number that the caller was connected to.
    pub to: Option<String>,
}

/// The people and keys of several calls.
pub type ManualActs = HashMap<CallId, ManualAct>;

/// A call's id, end and reason.
pub type EndedCall = (CallId, Option<Millis>, Option<HangupReason>);

/// Finds the people and keys that ended or transferred these calls. Skips calls that ended otherwise.
pub async fn of(
    visit: &SignedIn,
    calls: impl IntoIterator<Item = EndedCall>,
) -> Result<ManualActs, ApiError> {
    let mut found = Vec::new();
    for (call, ended, reason) in calls {
        let action = match reason {
            Some(HangupReason::Requested) => AuditAction::CallHangup,
            Some(HangupReason::Transferred) => AuditAction::CallTransfer,
            _ => continue,
        };
        let Some(ended) = ended else { continue };
        let entries = AuditQuery {
            tenant: Some(visit.tenant()),
            actor: None,
            action: Some(action),
            from: Some(ended.plus_ms(-BEFORE_THE_END_MS)),
            to: Some(ended.plus_ms(CLOCKS_APART_MS)),
        };
        let entry = entries
            .select()
            .filter(audit::Column::Target.eq(call.to_string()))
            .one(visit.store().api_reader())
            .await?;
        found.extend(entry.map(|entry| (call, entry)));
    }
    named(visit, found).await
}

async fn named(
    visit: &SignedIn,
    found: Vec<(CallId, audit::Model)>,
) -> Result<ManualActs, ApiError> {
    let actors: HashSet<Actor> = found.iter().map(|(_, entry)| entry.actor).collect();
    let people = actors.iter().filter_map(|actor| match actor {
        Actor::User(id) => Some(*id),
        _ => None,
    });
    let keys = actors.iter().filter_map(|actor| match actor {
        Actor::Key(id) => Some(*id),
        _ => None,
    });
    let people = names::of_people(visit, people.collect::<Vec<_>>()).await?;
    let keys = names::of_keys(visit, keys.collect::<Vec<_>>()).await?;
    let name = |actor| match actor {
        Actor::User(id) => people.get(&id).cloned(),
        Actor::Key(id) => {
            let key = keys.get(&id)?;
            Some(visit.tn("audit-key", &[("name", key.as_str().into())]))
        }
        _ => None,
    };
    let hand = |(call, entry): (CallId, audit::Model)| {
        let to = (entry.action == AuditAction::CallTransfer).then_some(entry.detail);
        let hand = ManualAct {
            name: name(entry.actor),
            to: to.filter(|to| !to.is_empty()),
        };
        (call, hand)
    };
    Ok(found.into_iter().map(hand).collect())
}
