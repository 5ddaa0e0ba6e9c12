//! Pages of a list.

use sea_orm::{EntityTrait, QuerySelect, Select};

use crate::extract::{OFFSET_MAX, Reader, digits};

/// The largest page.
pub const LIMIT_MAX: i64 = 100;
/// The page of who asks for none.
pub const LIMIT_DEFAULT: i64 = 50;

/// Which piece of a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub limit: i64,
    pub offset: i64,
}

impl Page {
    /// Reads `limit` and `offset`.
    pub fn read(form: &mut Reader<'_>) -> Self {
        Self {
            limit: form.defaulted("limit", None, LIMIT_DEFAULT, digits(1, LIMIT_MAX)),
            offset: form.defaulted("offset", None, 0, digits(0, OFFSET_MAX)),
        }
    }

    /// Limits a query to this page and one row more, which tells whether there is a next page.
    pub fn of<E: EntityTrait>(self, select: Select<E>) -> Select<E> {
        select
            .offset(self.offset.unsigned_abs())
            .limit(self.limit.unsigned_abs() + 1)
    }

    /// Takes the one row more away again; true if it was there.
    pub fn has_more<T>(self, rows: &mut Vec<T>) -> bool {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        more
    }
}
