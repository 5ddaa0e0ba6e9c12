//! Rows of any table inserted by one statement whose text, and so its plan, is the same for batches of any size. With a
//! parameter for each value there would be as many texts as sizes, and each connection would keep hundreds of them prepared.

use sea_orm::{
    ActiveModelTrait, ActiveValue, DbBackend, DbErr, EntityName, EntityTrait, IdenStatic, Iterable,
    Statement, Value,
};
use serde_json::{Map, Value as Json};

use crate::store::{Kind, json_rows, json_statement};

/// `INSERT INTO … SELECT …` of whole rows, with an ending such as `ON CONFLICT DO NOTHING RETURNING id`. Every column must be
/// set, to a text, a whole number or a boolean.
pub fn insert_rows<A: ActiveModelTrait>(
    backend: DbBackend,
    rows: &[A],
    ending: &str,
) -> Result<Statement, DbErr> {
    let mut columns: Vec<(&'static str, Kind)> = Vec::new();
    let mut batch = Vec::with_capacity(rows.len());
    for row in rows {
        let mut fields = Map::new();
        columns.clear();
        for column in <A::Entity as EntityTrait>::Column::iter() {
            let name = column.as_str();
            let (ActiveValue::Set(value) | ActiveValue::Unchanged(value)) = row.get(column) else {
                return Err(DbErr::Type(format!("{name} is not set")));
            };
            let (kind, value) =
                typed(value).ok_or_else(|| DbErr::Type(format!("{name} cannot be in a batch")))?;
            columns.push((name, kind));
            fields.insert(name.to_owned(), value);
        }
        batch.push(fields);
    }
    let names: Vec<String> = columns
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    let names = names.join(", ");
    // SQLite takes `ON` for a join condition after a plain SELECT: hence `WHERE true`.
    let sql = format!(
        "INSERT INTO {} ({names}) SELECT {names} FROM {} WHERE true {ending}",
        A::Entity::default().table_name(),
        json_rows(backend, &columns)
    );
    json_statement(backend, sql, &batch)
}

fn typed(value: Value) -> Option<(Kind, Json)> {
    match value {
        Value::String(text) => Some((Kind::Text, text.map_or(Json::Null, Json::from))),
        Value::BigInt(number) => Some((Kind::BigInt, number.map_or(Json::Null, Json::from))),
        Value::Bool(flag) => Some((Kind::Boolean, flag.map_or(Json::Null, Json::from))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::IntoActiveModel;

    use super::*;
    use crate::{
        tables::{attempt, invocation},
        values::{CallId, DeliveryId, Millis, TenantId},
    };

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn row(fault: Option<&str>) -> invocation::ActiveModel {
        let row = invocation::Model {
            call_id: CallId::new(NOW),
            invocation_id: "i".to_owned(),
            tenant_id: TenantId::new(NOW),
            function_name: "f".to_owned(),
            outcome: "{\"a\":\"\\u0001\"}".to_owned(),
            duration_ms: 7,
            created_at: NOW,
            function_id: None,
            fault: fault.map(str::to_owned),
        };
        row.into_active_model()
    }

    #[test]
    fn the_text_is_the_same_for_any_rows() {
        for backend in [DbBackend::Sqlite, DbBackend::Postgres] {
            let one = insert_rows(backend, &[row(None)], "ON CONFLICT DO NOTHING");
            let two = insert_rows(
                backend,
                &[row(Some("x")), row(None)],
                "ON CONFLICT DO NOTHING",
            );
            let (one, two) = (one.expect("a statement"), two.expect("a statement"));
            assert_eq!(one.sql, two.sql);
            assert!(one.sql.contains("\"duration_ms\""), "{}", one.sql);
            assert_ne!(one.values, two.values);
        }
    }

    #[test]
    fn what_json_does_not_hold_is_refused() {
        let row = attempt::Model {
            delivery_id: DeliveryId::new(NOW),
            number: 1,
            tenant_id: TenantId::new(NOW),
            started_at: NOW,
            duration_ms: 1,
            status_code: None,
            error_kind: None,
            response: vec![1],
        };
        let refused = insert_rows(DbBackend::Sqlite, &[row.into_active_model()], "");
        assert!(refused.is_err_and(|error| error.to_string().contains("response")));
    }
}
