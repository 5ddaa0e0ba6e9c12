//! The stored response of an `Idempotency-Key`, written in the commit of its effect. It goes into the row with which the
//! request claimed its key. If that claim is lost, the effect is not committed either.

use std::collections::HashMap;

use dikala_entities::{IdempotencyScope, Millis, batch::BatchWrite, idempotency, rows::ColumnType};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};

use super::Obstacle;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    pub scope: IdempotencyScope,
    pub key: String,
    /// Distinguishes the claim from a later one of the same key.
    pub claimed_at: Millis,
    pub status: i64,
    pub body: String,
    pub location: Option<String>,
    /// Size of the body in bytes, if it counts as large; else 0.
    pub size: i64,
}

const COLUMNS: [(&str, ColumnType); 7] = [
    ("scope", ColumnType::Text),
    ("key", ColumnType::Text),
    ("claimed_at", ColumnType::BigInt),
    ("status", ColumnType::BigInt),
    ("body", ColumnType::Text),
    ("location", ColumnType::Text),
    ("size", ColumnType::BigInt),
];

pub(super) fn write<'a>(answers: impl Iterator<Item = &'a StoredResponse>) -> BatchWrite {
    let rows = answers.cloned().map(|it| {
        vec![
            it.scope.into(),
            it.key.into(),
            it.claimed_at.into(),
            it.status.into(),
            it.body.into(),
            it.location.into(),
            it.size.into(),
        ]
    });
    let sql = "UPDATE idempotency_keys SET status = rows.status, body = rows.body, location = rows.location, \
               size = rows.size FROM {rows} WHERE idempotency_keys.scope = rows.scope \
               AND idempotency_keys.key = rows.key AND idempotency_keys.created_at = rows.claimed_at \
               AND idempotency_keys.status IS NULL";
    BatchWrite::new(sql, &COLUMNS, rows.collect())
}

/// The claims of some keys: when each was made, and whether it is answered.
#[derive(Default)]
pub(super) struct Claims(HashMap<(IdempotencyScope, String), (Millis, bool)>);

impl Claims {
    pub(super) async fn read(
        db: &impl ConnectionTrait,
        answers: Vec<&StoredResponse>,
    ) -> Result<Self, DbErr> {
        if answers.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let rows: Vec<(IdempotencyScope, String, Millis, Option<i64>)> =
            idempotency::Entity::find()
                .select_only()
                .columns([
                    idempotency::Column::Scope,
                    idempotency::Column::Key,
                    idempotency::Column::CreatedAt,
                    idempotency::Column::Status,
                ])
                .filter(idempotency::Column::Scope.is_in(answers.iter().map(|it| it.scope)))
                .filter(idempotency::Column::Key.is_in(answers.iter().map(|it| it.key.as_str())))
                .into_tuple()
                .all(db)
                .await?;
        let known = rows.into_iter();
        let known = known.map(|(scope, key, at, status)| ((scope, key), (at, status.is_some())));
        Ok(Self(known.collect()))
    }

    pub(super) fn obstacle(&self, answer: &StoredResponse) -> Option<Obstacle> {
        match self.0.get(&(answer.scope, answer.key.clone())) {
            Some((at, is_answered)) if *at == answer.claimed_at => {
                is_answered.then_some(Obstacle::Done)
            }
            _ => Some(Obstacle::Conflict),
        }
    }
}
