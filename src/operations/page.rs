//! Pages of a list.

use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect, Select, sea_query::Expr};

use crate::http::{
    error::ApiError,
    extract::{FormReader, LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, digits},
    field::{FieldCode, ValueFault},
};

/// The largest `offset`. Skipped rows are read, so far pages would cost more and more.
pub const SKIPPED_MAX: u64 = 100_000;

/// A page of a list, for code that shows any list.
pub trait ListPage {
    type Row;
    /// The name of the rows.
    const NAME: &'static str;

    fn rows(&self) -> &[Self::Row];
    /// The offset of the next page; none after the last.
    fn next(&self) -> Option<i64>;
}

/// The requested part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageRange {
    pub limit: i64,
    pub offset: i64,
}

impl PageRange {
    /// Reads `limit` and `offset`.
    pub fn read(form: &mut FormReader<'_>) -> Self {
        Self {
            limit: form.defaulted("limit", None, LIMIT_DEFAULT, digits(1, LIMIT_MAX)),
            offset: form.defaulted("offset", None, 0, digits(0, OFFSET_MAX)),
        }
    }

    /// Limits a query to this page and one row more, which shows if there is a next page.
    pub fn of<E: EntityTrait>(self, select: Select<E>) -> Select<E> {
        self.limit(select.offset(self.offset.unsigned_abs()))
    }

    /// The same for a query that starts at the page.
    pub fn limit<E: EntityTrait>(self, select: Select<E>) -> Select<E> {
        select.limit(self.limit.unsigned_abs() + 1)
    }

    /// True if the page can have rows. A page beyond [`SKIPPED_MAX`] is refused with the hint `instead` if the list
    /// is that long; otherwise it is empty.
    pub async fn is_in_reach<E: EntityTrait>(
        self,
        db: &impl ConnectionTrait,
        select: &Select<E>,
        instead: &str,
    ) -> Result<bool, ApiError> {
        if self.offset.unsigned_abs() <= SKIPPED_MAX {
            return Ok(true);
        }
        // No columns: whole rows would be read and thrown away, and without statistics sorted, too.
        let last = select.clone().select_only().expr(Expr::cust("1"));
        let last = last.offset(SKIPPED_MAX).into_tuple::<i32>();
        match last.one(db).await? {
            None => Ok(false),
            Some(_) => {
                let predicate =
                    format!("must be at most {SKIPPED_MAX} in a list as long as this; {instead}");
                let fault = ValueFault::new(FieldCode::TooLarge, predicate);
                Err(ApiError::field(fault.in_field("offset")))
            }
        }
    }

    /// This page of a list in memory, and true if there is a next page.
    pub fn cut<T>(self, rows: Vec<T>) -> (Vec<T>, bool) {
        let count = |figure: i64| usize::try_from(figure).unwrap_or(usize::MAX);
        let wanted = count(self.limit).saturating_add(1);
        let rows = rows.into_iter().skip(count(self.offset));
        let mut rows: Vec<T> = rows.take(wanted).collect();
        let has_more = self.has_more(&mut rows);
        (rows, has_more)
    }

    /// Removes the extra row; true if there was one.
    pub fn has_more<T>(self, rows: &mut Vec<T>) -> bool {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        more
    }
}
