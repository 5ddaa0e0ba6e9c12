//! Pages of lists, all of the same form.

use sea_orm::{ConnectionTrait, DbErr, EntityTrait, QuerySelect, Select, TryGetable};

use super::{PageRange, SKIPPED_MAX};
use crate::http::error::ApiError;

/// The advice if too many rows are skipped.
const NARROW: &str = "narrow it with the other parameters";

/// Declares a page of a list; the key is the plural of its items. A row after the key is in the example.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident { $field:ident: $view:ty, $key:tt $(: $row:tt)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, serde::Serialize, utoipa::ToSchema)]
        #[serde(rename_all = "camelCase")]
        #[schema(example = json!({$key: [$($row)?], "limit": 50, "offset": 0, "hasMore": false}))]
        pub struct $name {
            pub $field: Vec<$view>,
            pub limit: i64,
            pub offset: i64,
            pub has_more: bool,
        }

        impl $name {
            pub(crate) fn new(page: $crate::operations::PageRange, $field: Vec<$view>, has_more: bool) -> Self {
                Self { $field, limit: page.limit, offset: page.offset, has_more }
            }
        }

        impl $crate::operations::ListPage for $name {
            type Row = $view;
            const NAME: &'static str = stringify!($field);

            fn rows(&self) -> &[$view] {
                &self.$field
            }

            fn next(&self) -> Option<i64> {
                self.has_more.then_some(self.offset + self.limit)
            }
        }
    )*};
}
pub(crate) use lists;

/// The rows of a page, and whether more follow.
pub(crate) async fn rows<E: EntityTrait>(
    db: &impl ConnectionTrait,
    page: PageRange,
    select: Select<E>,
) -> Result<(Vec<E::Model>, bool), ApiError>
where
    E::Model: Send + Sync,
{
    let mut rows = Vec::new();
    if page.is_in_reach(db, &select, NARROW).await? {
        rows = page.of(select).all(db).await?;
    }
    let has_more = page.has_more(&mut rows);
    Ok((rows, has_more))
}

/// A page of rows, converted to views.
pub(crate) async fn views<E: EntityTrait, V: From<E::Model>>(
    db: &impl ConnectionTrait,
    page: PageRange,
    select: Select<E>,
) -> Result<(Vec<V>, bool), ApiError>
where
    E::Model: Send + Sync,
{
    let (rows, has_more) = rows(db, page, select).await?;
    Ok((rows.into_iter().map(V::from).collect(), has_more))
}

/// The limit of a search by a filter without an index: the value of the order column in row number [`SKIPPED_MAX`].
/// `None` if the list is shorter.
pub(crate) async fn reach<E: EntityTrait, T: TryGetable>(
    db: &impl ConnectionTrait,
    list: Select<E>,
    by: E::Column,
) -> Result<Option<T>, DbErr> {
    let last = list.select_only().column(by).offset(SKIPPED_MAX).limit(1);
    last.into_tuple().one(db).await
}
