//! Finds functions whose JSON Schema an earlier release accepted and this one does not.

use dikala_actors::functions::schema::Schema;
use dikala_entities::{FunctionId, Store, function};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

/// Rows per query.
const BATCH: u64 = 100;

/// The functions whose `parameters` schema is not supported. They answer `invalid_arguments` until the tenant changes
/// it.
pub async fn unusable(store: &Store) -> Result<Vec<FunctionId>, DbErr> {
    let mut unusable = Vec::new();
    let mut after: Option<FunctionId> = None;
    loop {
        let mut select = function::Entity::find()
            .select_only()
            .column(function::Column::Id)
            .column(function::Column::Parameters)
            .order_by_asc(function::Column::Id)
            .limit(BATCH);
        if let Some(after) = after {
            select = select.filter(function::Column::Id.gt(after));
        }
        let rows: Vec<(FunctionId, String)> = select.into_tuple().all(store.reader()).await?;
        let Some((last, _)) = rows.last() else {
            return Ok(unusable);
        };
        after = Some(*last);
        let wrong = |parameters: &String| {
            let schema = serde_json::from_str(parameters).unwrap_or_default();
            Schema::new(&schema).is_err()
        };
        let wrong = rows.iter().filter(|(_, parameters)| wrong(parameters));
        unusable.extend(wrong.map(|(id, _)| *id));
    }
}
