//! Lists that are given whole: read in batches and written as the client reads, so that no answer is ever in memory as a whole.
//!
//! A list that breaks off never looks whole: its connection is cut before the last chunk. A client of HTTP/1.0 knows no chunks,
//! and its answer ends with the connection; what broke off is then no JSON, as its closing brackets are missing.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpResponse, http::header::CONTENT_TYPE, rt, web::Data};
use bytes::Bytes;
use dikala_actors::shares::fair;
use dikala_entities::TenantId;
use futures_util::stream;
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, ModelTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    Value,
};
use serde::Serialize;
use tokio::sync::mpsc;

use super::Page;
use crate::{
    error::ApiError,
    extract::{Caller, OFFSET_MAX, Query, digits},
    services::Services,
};

/// Answers of one tenant that are being written at the same time.
pub const LISTS_PER_TENANT_MAX: usize = 4;
/// Answers of all tenants that are being written at the same time.
const LISTS_MAX: usize = 64;
/// Large answers of one tenant that were made as a whole and are not read yet, in bytes.
pub const BYTES_PER_TENANT_MAX: usize = 16 * 1024 * 1024;
/// The same of all tenants.
const BYTES_MAX: usize = 256 * 1024 * 1024;
/// What an answer may have before it counts as a large one, in bytes.
const AT_ONCE: usize = 64 * 1024;
/// What is handed on in one piece, in bytes, or a single row that has more.
const PIECE: usize = 16 * 1024;
/// How long an answer may take in all.
const WHOLE: Duration = Duration::from_secs(300);

/// What is on its way to clients, by tenant.
#[derive(Debug, Default)]
pub struct Lists(Mutex<HashMap<TenantId, UnderWay>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnderWay {
    /// Answers that are being written.
    lists: usize,
    /// Of large answers that were made as a whole.
    bytes: usize,
}

/// The right to have an answer on its way, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    tables: Arc<Lists>,
    tenant: TenantId,
    share: UnderWay,
}

impl Lists {
    /// For an answer that is being written.
    fn take(self: &Arc<Self>, tenant: TenantId) -> Result<Place, ApiError> {
        self.add(tenant, UnderWay { lists: 1, bytes: 0 })
    }

    /// For an answer of so many bytes that is in memory until the client has read it. Small ones need none.
    pub fn hold(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Result<Option<Place>, ApiError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes <= AT_ONCE {
            return Ok(None);
        }
        self.add(tenant, UnderWay { lists: 0, bytes }).map(Some)
    }

    /// Whether nothing is on its way.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    fn add(self: &Arc<Self>, tenant: TenantId, share: UnderWay) -> Result<Place, ApiError> {
        let mut by_tenant = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = by_tenant.get(&tenant).copied().unwrap_or_default();
        let of_all =
            |of: fn(&UnderWay) -> usize| by_tenant.values().map(of).collect::<Vec<usize>>();
        let lists = Shared {
            max: LISTS_MAX,
            each: LISTS_PER_TENANT_MAX,
            held: of_all(|under_way| under_way.lists),
        };
        let bytes = Shared {
            max: BYTES_MAX,
            each: BYTES_PER_TENANT_MAX,
            held: of_all(|under_way| under_way.bytes),
        };
        let mine = UnderWay {
            lists: lists.add(mine.lists, share.lists)?,
            bytes: bytes.add(mine.bytes, share.bytes)?,
        };
        by_tenant.insert(tenant, mine);
        let tables = Arc::clone(self);
        Ok(Place {
            tables,
            tenant,
            share,
        })
    }
}

/// Something that tenants share: no number of slow readers takes it from one who has none of it yet.
struct Shared {
    max: usize,
    each: usize,
    /// What each tenant has that has anything under way.
    held: Vec<usize>,
}

impl Shared {
    /// What a tenant has of it with so much more.
    fn add(&self, mine: usize, more: usize) -> Result<usize, ApiError> {
        if more == 0 {
            return Ok(mine);
        }
        let held = self.held.iter().sum::<usize>();
        let holders = self.held.iter().filter(|held| **held > 0).count();
        let sum = mine.saturating_add(more);
        if sum <= fair(self.max, self.each, held, holders) && more <= self.max - held {
            return Ok(sum);
        }
        // Where the tenant has read what he has, there is room for him.
        if mine > 0 || more > self.each {
            return Err(ApiError::TooMuchUnread);
        }
        Err(ApiError::Unavailable)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_tenant = self.tables.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = by_tenant.get_mut(&self.tenant) {
            mine.lists -= self.share.lists;
            mine.bytes -= self.share.bytes;
            if *mine == UnderWay::default() {
                by_tenant.remove(&self.tenant);
            }
        }
    }
}

/// A list, oldest first.
#[derive(Debug)]
pub struct Listing<E: EntityTrait> {
    /// What the rows are called in the answer.
    pub key: &'static str,
    /// The rows, in any order.
    pub rows: Select<E>,
    /// Orders them; no two have the same.
    pub by: E::Column,
    /// Rows that are read at once: together they should not have much more than a megabyte.
    pub batch: u64,
    /// One row as JSON.
    pub show: fn(E::Model) -> String,
}

/// A row as JSON.
pub fn json<V: From<M> + Serialize, M>(row: M) -> String {
    serde_json::to_string(&V::from(row))
        .expect("views have string keys and nothing that fails to serialize")
}

/// `limit` and `offset` of a list that is given whole without them.
fn page(query: &Query) -> Result<Option<Page>, ApiError> {
    query.0.read(&[], |form| {
        let limit = form.optional("limit", None, digits(1, super::LIMIT_MAX));
        let offset = form.optional("offset", None, digits(0, OFFSET_MAX));
        let asked = limit.is_some() || offset.is_some();
        Some(asked.then_some(Page {
            limit: limit.unwrap_or(super::LIMIT_DEFAULT),
            offset: offset.unwrap_or(0),
        }))
    })
}

/// The answer: at once where it is small, else in pieces.
pub async fn answer<E>(
    services: Data<Services>,
    caller: &Caller,
    query: &Query,
    list: Listing<E>,
) -> Result<HttpResponse, ApiError>
where
    E: EntityTrait,
    E::Model: Send + Sync,
{
    let mut writer = Writer::new(services, list, page(query)?);
    let (begin, over) = writer.piece(AT_ONCE).await?;
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, "application/json"));
    if over {
        return Ok(response.body(begin));
    }
    let place = writer.services.lists.take(caller.tenant)?;
    let (to, mut pieces) = mpsc::channel(1);
    let whole = Arc::new(AtomicBool::new(false));
    let written = Arc::clone(&whole);
    rt::spawn(async move {
        let _place = place;
        let work = tokio::time::timeout(WHOLE, writer.write(begin, &to)).await;
        written.store(matches!(work, Ok(Ok(()))), Ordering::Release);
        drop(to);
    });
    // What broke off must not look like a whole answer: the error cuts the connection.
    let body = stream::poll_fn(move |context| {
        pieces.poll_recv(context).map(|piece| match piece {
            Some(piece) => Some(Ok(piece)),
            None if whole.load(Ordering::Acquire) => None,
            None => Some(Err(ApiError::Unavailable)),
        })
    });
    Ok(response.streaming(body))
}

/// Why an answer broke off.
enum Broken {
    Store,
    /// The client left, or reads too slowly.
    Reader,
}

struct Writer<E: EntityTrait> {
    services: Data<Services>,
    list: Listing<E>,
    page: Option<Page>,
    /// Rows that were read and not written yet.
    read: std::vec::IntoIter<E::Model>,
    /// Of the last row that was read.
    after: Option<Value>,
    written: u64,
    /// There are no more rows to read.
    end: bool,
    begun: bool,
}

impl<E> Writer<E>
where
    E: EntityTrait,
    E::Model: Send + Sync,
{
    fn new(services: Data<Services>, list: Listing<E>, page: Option<Page>) -> Self {
        Self {
            services,
            list,
            page,
            read: Vec::new().into_iter(),
            after: None,
            written: 0,
            end: false,
            begun: false,
        }
    }

    async fn write(&mut self, begin: String, to: &mpsc::Sender<Bytes>) -> Result<(), Broken> {
        let (mut piece, mut over) = (begin, false);
        loop {
            let sent =
                tokio::time::timeout(self.services.settings.unread, to.send(piece.into())).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Err(Broken::Reader);
            }
            if over {
                return Ok(());
            }
            (piece, over) = self.piece(PIECE).await.map_err(|error| {
                tracing::warn!(%error, "a list breaks off: the table cannot be read");
                Broken::Store
            })?;
        }
    }

    /// The next piece of the answer, and whether it is the last one.
    async fn piece(&mut self, bytes: usize) -> Result<(String, bool), DbErr> {
        let mut text = String::new();
        if !self.begun {
            self.begun = true;
            text = format!("{{\"{}\":[", self.list.key);
        }
        while text.len() < bytes {
            let full = self
                .page
                .is_some_and(|page| self.written >= page.limit.unsigned_abs());
            let row = self.row().await?;
            match row {
                Some(row) if !full => {
                    if self.written > 0 {
                        text.push(',');
                    }
                    text.push_str(&(self.list.show)(row));
                    self.written += 1;
                }
                more => {
                    text.push_str(&self.tail(more.is_some()));
                    return Ok((text, true));
                }
            }
        }
        Ok((text, false))
    }

    fn tail(&self, has_more: bool) -> String {
        match self.page {
            None => "]}".to_owned(),
            Some(Page { limit, offset }) => {
                format!("],\"limit\":{limit},\"offset\":{offset},\"hasMore\":{has_more}}}")
            }
        }
    }

    async fn row(&mut self) -> Result<Option<E::Model>, DbErr> {
        if let Some(row) = self.read.next() {
            return Ok(Some(row));
        }
        if self.end {
            return Ok(None);
        }
        let mut select = self.list.rows.clone().order_by_asc(self.list.by);
        if let Some(after) = &self.after {
            select = select.filter(self.list.by.gt(after.clone()));
        } else if let Some(page) = self.page {
            select = select.offset(page.offset.unsigned_abs());
        }
        let batch = match self.page {
            // One more tells whether there is a next page.
            Some(page) => (page.limit.unsigned_abs() + 1 - self.written).min(self.list.batch),
            None => self.list.batch,
        };
        let rows = select
            .limit(batch)
            .all(self.services.store.api_reader())
            .await?;
        self.end = u64::try_from(rows.len()).is_ok_and(|count| count < batch);
        self.after = rows
            .last()
            .map(|row| row.get(self.list.by))
            .or(self.after.take());
        self.read = rows.into_iter();
        Ok(self.read.next())
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;

    use super::*;

    fn tenant() -> TenantId {
        TenantId::new(Millis::from_i64(1))
    }

    /// Takes for many tenants in turn until none of them gets anything more.
    fn greedy(tenants: usize, take: impl Fn(TenantId) -> Option<Place>) -> Vec<Place> {
        let tenants: Vec<TenantId> = (0..tenants).map(|_| tenant()).collect();
        let mut places = Vec::new();
        loop {
            let before = places.len();
            places.extend(tenants.iter().filter_map(|tenant| take(*tenant)));
            if places.len() == before {
                return places;
            }
        }
    }

    #[test]
    fn tenants_that_read_slowly_leave_places_for_those_that_have_none() {
        for tenants in 1..=30 {
            let lists = Arc::new(Lists::default());
            let places = greedy(tenants, |tenant| lists.take(tenant).ok());
            assert!(lists.take(tenant()).is_ok(), "{tenants} took all places");
            drop(places);
            assert!(lists.is_idle());
        }
    }

    #[test]
    fn tenants_that_read_slowly_leave_bytes_for_those_that_have_none() {
        const PAGE: u64 = 1024 * 1024;
        for tenants in 1..=30 {
            let lists = Arc::new(Lists::default());
            let hold = |tenant| lists.hold(tenant, PAGE).ok().flatten();
            let places = greedy(tenants, hold);
            assert!(hold(tenant()).is_some(), "{tenants} took all bytes");
            drop(places);
            assert!(lists.is_idle());
        }
    }

    #[test]
    fn who_has_unread_answers_is_told_so_and_others_that_there_is_no_room() {
        let shared = |held| Shared {
            max: 8,
            each: 4,
            held,
        };
        let add = |held, mine, more| {
            let error = shared(held).add(mine, more).err()?;
            Some(matches!(error, ApiError::TooMuchUnread))
        };
        assert_eq!(add(vec![4], 4, 1), Some(true));
        assert_eq!(add(vec![], 0, 5), Some(true));
        assert_eq!(add(vec![3, 2], 2, 1), Some(true));
        assert_eq!(add(vec![4, 4], 0, 1), Some(false));
        assert_eq!(add(vec![3, 2], 0, 1), None);
    }
}
