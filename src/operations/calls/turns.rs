//! The turns of a call whose transcript is not there yet. They are in its events.

use std::collections::{BTreeMap, btree_map::Entry};

use dikala_entities::{CallId, EventId, EventKind, OfTenant, TenantId, event};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use serde_json::Value;

/// Events per read, and those that are read at most: twice as many as a transcript can have turns, because some replace others.
const BATCH: u64 = 200;
const READ_MAX: u64 = 4_000;
/// Bytes of the turns that are shown, as of a transcript.
const BYTES_MAX: usize = 256 * 1_024;

/// The turns so far in their order, as a transcript has them: a JSON array.
pub async fn heard(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    call: CallId,
) -> Result<String, DbErr> {
    let mut heard = HeardTurns::default();
    let mut before: Option<EventId> = None;
    for _ in 0..READ_MAX / BATCH {
        // By id, which the index of a call's events has. A call's turns are committed apart, so this is their order.
        let mut newest_first = event::Entity::of(tenant)
            .select_only()
            .columns([event::Column::Id, event::Column::Body])
            .filter(event::Column::CallId.eq(call))
            .filter(event::Column::Kind.eq(EventKind::CallTurn))
            .order_by_desc(event::Column::Id)
            .limit(BATCH);
        if let Some(before) = before {
            newest_first = newest_first.filter(event::Column::Id.lt(before));
        }
        let rows: Vec<(EventId, String)> = newest_first.into_tuple().all(db).await?;
        let is_last = (rows.len() as u64) < BATCH;
        before = rows.last().map(|(id, _)| *id).or(before);
        let has_room = rows.iter().all(|(_, body)| heard.add(body));
        if is_last || !has_room {
            break;
        }
    }
    Ok(heard.in_order().to_string())
}

/// Turns by their numbers. Of the versions of a turn the newest counts.
#[derive(Default)]
struct HeardTurns {
    turns: BTreeMap<u64, Value>,
    bytes: usize,
}

impl HeardTurns {
    /// Adds the next older turn. An erased one is left out. False if there is no room for it.
    fn add(&mut self, body: &str) -> bool {
        let mut read: Value = serde_json::from_str(body).unwrap_or_default();
        let mut turn = read["data"]["turn"].take();
        let n = turn.as_object_mut().and_then(|turn| turn.remove("n"));
        let Some(n) = n.and_then(|n| n.as_u64()) else {
            return true;
        };
        if let Entry::Vacant(place) = self.turns.entry(n) {
            self.bytes += turn.to_string().len();
            if self.bytes > BYTES_MAX {
                return false;
            }
            place.insert(turn);
        }
        true
    }

    fn in_order(self) -> Value {
        self.turns.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeated_number_replaces_its_turn_and_erased_ones_are_left_out() {
        let body = |turn: Value| json!({"event": "call.turn", "data": {"turn": turn}}).to_string();
        let said = |n: u64, text: &str| body(json!({"n": n, "role": "agent", "text": text}));
        let mut heard = HeardTurns::default();
        for body in [
            body(Value::Null),
            said(2, "Jam"),
            said(1, "Halo"),
            said(2, "Ja"),
        ] {
            assert!(heard.add(&body));
        }
        let expected = json!([{"role": "agent", "text": "Halo"}, {"role": "agent", "text": "Jam"}]);
        assert_eq!(heard.in_order(), expected);
    }

    #[test]
    fn replaced_versions_take_no_room() {
        let said = |n: u64| {
            let turn = json!({"n": n, "text": "a".repeat(16_000)});
            json!({"event": "call.turn", "data": {"turn": turn}}).to_string()
        };
        let mut heard = HeardTurns::default();
        assert!((0..1_000).all(|_| heard.add(&said(1))));
        let fit = (2..100).take_while(|n| heard.add(&said(*n))).count();
        assert_eq!(fit + 1, BYTES_MAX / 16_030);
    }
}
