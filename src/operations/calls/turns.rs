//! The turns of a call whose transcript is not there yet. They are in its events.

use std::collections::BTreeMap;

use dikala_entities::{CallId, EventKind, OfTenant, TenantId, event};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use serde_json::Value;

/// Turns that are read, of which some replace others. Twice as many as a transcript can have.
const TURNS_MAX: u64 = 4_000;
/// Bytes of what is shown, as of a transcript.
const BYTES_MAX: usize = 256 * 1_024;

/// The turns so far in their order, as a transcript has them: a JSON array.
pub async fn heard(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    call: CallId,
) -> Result<String, DbErr> {
    let newest_first: Vec<String> = event::Entity::of(tenant)
        .select_only()
        .column(event::Column::Body)
        .filter(event::Column::CallId.eq(call))
        .filter(event::Column::Kind.eq(EventKind::CallTurn))
        .order_by_desc(event::Column::Position)
        .limit(TURNS_MAX)
        .into_tuple()
        .all(db)
        .await?;
    Ok(in_order(&newest_first).to_string())
}

/// The newest one of each number. Erased turns are left out, and the oldest beyond the limit.
fn in_order(newest_first: &[String]) -> Value {
    let mut turns = BTreeMap::new();
    let mut bytes = 0;
    for body in newest_first {
        let Ok(mut read) = serde_json::from_str::<Value>(body) else {
            continue;
        };
        let mut turn = read["data"]["turn"].take();
        let n = turn.as_object_mut().and_then(|turn| turn.remove("n"));
        let Some(n) = n.and_then(|n| n.as_u64()) else {
            continue;
        };
        bytes += body.len();
        if bytes > BYTES_MAX {
            break;
        }
        turns.entry(n).or_insert(turn);
    }
    turns.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeated_number_replaces_its_turn_and_erased_ones_are_left_out() {
        let body = |turn: Value| json!({"event": "call.turn", "data": {"turn": turn}}).to_string();
        let said = |n: u64, text: &str| body(json!({"n": n, "role": "agent", "text": text}));
        let bodies = [
            body(Value::Null),
            said(2, "Jam"),
            said(1, "Halo"),
            said(2, "Ja"),
        ];
        let expected = json!([{"role": "agent", "text": "Halo"}, {"role": "agent", "text": "Jam"}]);
        assert_eq!(in_order(&bodies), expected);
    }
}
