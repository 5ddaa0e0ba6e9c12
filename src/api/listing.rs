//! Lists that are given whole: read in batches and written as the client reads, so that no answer is ever in memory as a whole.

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
pub const BYTES_PER_TENANT_MAX: u64 = 16 * 1024 * 1024;
/// The same of all tenants.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
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
    bytes: u64,
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
        if usize::try_from(bytes).is_ok_and(|bytes| bytes <= AT_ONCE) {
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
        let all = by_tenant.values().fold(share, |all, more| UnderWay {
            lists: all.lists + more.lists,
            bytes: all.bytes + more.bytes,
        });
        if all.lists > LISTS_MAX || all.bytes > BYTES_MAX {
            return Err(ApiError::Unavailable);
        }
        let mine = by_tenant.get(&tenant).copied().unwrap_or_default();
        let mine = UnderWay {
            lists: mine.lists + share.lists,
            bytes: mine.bytes + share.bytes,
        };
        if mine.lists > LISTS_PER_TENANT_MAX || mine.bytes > BYTES_PER_TENANT_MAX {
            return Err(ApiError::TooMuchUnread);
        }
        by_tenant.insert(tenant, mine);
        let tables = Arc::clone(self);
        Ok(Place {
            tables,
            tenant,
            share,
        })
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
            .all(self.services.store.reader())
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
