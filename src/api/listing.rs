//! Lists without a limit: read in batches and written as fast as the client reads, so that no answer is in memory as
//! a whole.
//!
//! An incomplete list is always recognizable: the connection is cut before the last chunk. For HTTP/1.0, which has no
//! chunks, the closing brackets are missing and the body is no valid JSON.

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
    DbErr, EntityTrait, ExprTrait, ModelTrait, Order, QueryFilter, QueryOrder, QuerySelect, Select,
    Value, sea_query::Expr,
};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::{
    api::context::Services,
    http::{
        error::ApiError,
        extract::{LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, Query, digits},
        unread::AT_ONCE,
    },
    operations::{OperationContext, PageRange},
};

/// Size of a piece of the answer, in bytes; a single row may be larger.
const PIECE: usize = 16 * 1024;
/// Longest time for the whole answer.
const WHOLE: Duration = Duration::from_secs(300);

/// A list, oldest first.
#[derive(Debug)]
pub struct Listing<E: EntityTrait> {
    /// The name of the array in the answer.
    pub key: &'static str,
    /// The rows, unordered.
    pub rows: Select<E>,
    /// The sort column; its values are unique.
    pub by: E::Column,
    /// The rows are few and sorted after they are found. SQLite would follow an index of the sort column, which has more.
    pub are_few: bool,
    /// Rows per query; together not much more than a megabyte.
    pub batch: u64,
    /// Writes a row as JSON.
    pub show: fn(E::Model) -> String,
}

/// A row as JSON.
pub fn json<V: From<M> + Serialize, M>(row: M) -> String {
    serde_json::to_string(&V::from(row))
        .expect("views have string keys and nothing that fails to serialize")
}

/// Reads `limit` and `offset`. None if neither is given; then the whole list is sent.
fn page(query: &Query) -> Result<Option<PageRange>, ApiError> {
    query.0.read(&[], |form| {
        let limit = form.optional("limit", None, digits(1, LIMIT_MAX));
        let offset = form.optional("offset", None, digits(0, OFFSET_MAX));
        let asked = limit.is_some() || offset.is_some();
        Some(asked.then_some(PageRange {
            limit: limit.unwrap_or(LIMIT_DEFAULT),
            offset: offset.unwrap_or(0),
        }))
    })
}

/// The answer: at once if it is small, otherwise in pieces.
pub async fn answer<E>(
    services: Data<Services>,
    context: &OperationContext,
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
    let body = in_pieces(&services, context.tenant()?, WHOLE, all)?;
    Ok(response.streaming(body))
}

/// A streamed body with one piece in memory at a time. The connection is cut if a piece fails, if the client leaves
/// one unread for too long, or when `whole` has passed.
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

/// The answer was cut off.
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
            // An empty chunk would end the body.
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
    page: Option<PageRange>,
    /// Rows that were read and not written yet.
    read: std::vec::IntoIter<E::Model>,
    /// The sort key of the last row that was read.
    after: Option<Value>,
    written: u64,
    /// True if there are no more rows to read.
    end: bool,
    begun: bool,
}

impl<E> Writer<E>
where
    E: EntityTrait,
    E::Model: Send + Sync,
{
    fn new(services: Data<Services>, list: Listing<E>, page: Option<PageRange>) -> Self {
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

    /// The next piece of the answer, and true if it is the last one.
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
            Some(PageRange { limit, offset }) => {
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
        let by = Expr::col((E::default(), self.list.by));
        let by = match self.list.are_few {
            // An expression has no index.
            true => ExprTrait::add(by, 0),
            false => by,
        };
        let mut select = self.list.rows.clone().order_by(by.clone(), Order::Asc);
        if let Some(after) = &self.after {
            select = select.filter(by.gt(after.clone()));
        } else if let Some(page) = self.page {
            select = select.offset(page.offset.unsigned_abs());
        }
        let batch = match self.page {
            // One row more shows if there is a next page.
            Some(page) => Ord::min(
                page.limit.unsigned_abs() + 1 - self.written,
                self.list.batch,
            ),
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
