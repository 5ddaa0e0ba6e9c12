//! Lists that are given whole: read in batches and written as the client reads, so that no answer is ever in memory as a whole.
//!
//! A list that breaks off never looks whole: its connection is cut before the last chunk. A client of HTTP/1.0 knows no chunks,
//! and its answer ends with the connection; what broke off is then no JSON, as its closing brackets are missing.

use std::{
    fmt::Display,
    future::ready,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpResponse, http::header::CONTENT_TYPE, rt, web::Data};
use bytes::Bytes;
use dikala_entities::TenantId;
use futures_util::{Stream, StreamExt, stream};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, ModelTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    Value,
};
use serde::Serialize;
use tokio::sync::mpsc;

use super::Page;
use crate::{
    api::context::Services,
    http::{
        error::ApiError,
        extract::{Caller, LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, Query, digits},
        unread::AT_ONCE,
    },
};

/// What is handed on in one piece, in bytes, or a single row that has more.
const PIECE: usize = 16 * 1024;
/// How long an answer may take in all.
const WHOLE: Duration = Duration::from_secs(300);

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
        let limit = form.optional("limit", None, digits(1, LIMIT_MAX));
        let offset = form.optional("offset", None, digits(0, OFFSET_MAX));
        let asked = limit.is_some() || offset.is_some();
        Some(asked.then_some(Page {
            limit: limit.unwrap_or(LIMIT_DEFAULT),
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
    let services = writer.services.clone();
    let rest = stream::try_unfold((writer, false), |(mut writer, over)| async move {
        if over {
            return Ok(None);
        }
        let (piece, over) = writer.piece(PIECE).await?;
        Ok::<_, DbErr>(Some((piece, (writer, over))))
    });
    let all = stream::once(ready(Ok(begin))).chain(rest);
    let body = in_pieces(&services, caller.tenant, WHOLE, all)?;
    Ok(response.streaming(body))
}

/// A body of which one piece at a time is in memory. It ends where the pieces do; where one fails, where the client leaves one
/// unread for too long, or where `whole` is over, the connection is cut, so that what broke off does not look whole.
pub fn in_pieces<S, E>(
    services: &Services,
    tenant: TenantId,
    whole: Duration,
    pieces: S,
) -> Result<impl Stream<Item = Result<Bytes, ApiError>> + use<S, E>, ApiError>
where
    S: Stream<Item = Result<String, E>> + 'static,
    E: Display + 'static,
{
    let place = services.http.unread.take(tenant)?;
    let unread = services.settings.unread;
    let (to, mut received) = mpsc::channel(1);
    let is_whole = Arc::new(AtomicBool::new(false));
    let written = Arc::clone(&is_whole);
    rt::spawn(async move {
        let _place = place;
        let work = tokio::time::timeout(whole, write(pieces, unread, &to)).await;
        written.store(matches!(work, Ok(Ok(()))), Ordering::Release);
        drop(to);
    });
    Ok(stream::poll_fn(move |context| {
        received.poll_recv(context).map(|piece| match piece {
            Some(piece) => Some(Ok(piece)),
            None if is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(ApiError::Unavailable)),
        })
    }))
}

/// An answer broke off.
struct Broken;

async fn write<E: Display>(
    pieces: impl Stream<Item = Result<String, E>>,
    unread: Duration,
    to: &mpsc::Sender<Bytes>,
) -> Result<(), Broken> {
    let mut pieces = pin!(pieces);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            tracing::warn!(%error, "a long answer breaks off");
            Broken
        })?;
        if piece.is_empty() {
            // A chunk without anything in it would end the body.
            continue;
        }
        let sent = tokio::time::timeout(unread, to.send(piece.into())).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Err(Broken);
        }
    }
    Ok(())
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
