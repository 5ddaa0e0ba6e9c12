//! Live updates: a stream per open page that sends parts of the page as newly rendered HTML. The script replaces
//! the old parts.
//!
//! A tenant's events wake its streams, which then read the affected rows. A page that was hidden reconnects with
//! its last position and receives what happened since. The stream ends with the session.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use actix_web::{HttpRequest, HttpResponse, http::header::HeaderName, rt};
use dikala_actors::events::followers::Follower;
use dikala_entities::{CallId, EventKind, OfTenant, event};
use maud::Markup;
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use tokio::time::Instant;

use super::{
    calls::{
        filter::CallQuery,
        record,
        rows::{self, CallNames},
        show,
    },
    follow::{self, FollowedPart},
    form::FormValues,
    home::{self, Period},
    view::SignedIn,
};
use crate::{
    api::events::no_seat,
    http::error::{ApiError, Missing},
    operations::calls,
    pages::{
        headers::header,
        stream::{self, OPENING, OVER, STILL_HERE, StreamSender, frame},
    },
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Interval of keep-alives, and of updates that no event causes.
const BEAT: Duration = Duration::from_secs(10);
/// Pause between two batches of events, so that a burst of calls does not render as many pages.
const PAUSE: Duration = Duration::from_millis(300);
/// The pause on the home page, which changes with every call. An update has about 2 KB, so a busy shop receives less than a megabyte an
/// hour. After a pause without calls the next one is shown at once.
const HOME_PAUSE: Duration = Duration::from_secs(10);
/// Events per read.
const BATCH: u64 = 200;
/// Number of missed events beyond which a list is reloaded: without turns, which it does not show, and with them.
const STALE: u64 = 200;
const STALE_WITH_TURNS: i64 = 4_000;

/// The followed part of a page.
enum Watch {
    List(Box<CallQuery>),
    /// A part of a page and its last sent HTML.
    Part(Part, String),
}

#[derive(Clone, Copy)]
enum Part {
    Home(Period),
    Call(CallId),
}

/// `GET /dashboard/live`: server-sent events. Their ids are event positions; the last one comes back as the parameter `after`
/// or in the browser's `Last-Event-ID` header. Kinds:
///
/// - `row`, `part`: an element that replaces the one with the same id.
/// - `new`: a row that is inserted at the top unless it is there already.
/// - `said`: a text for screen readers.
/// - `stale`: the page missed too much and has to be reloaded.
/// - `over`: nothing will change any more.
/// - `closed`: another page of the session took this stream's place.
pub async fn stream(
    visit: SignedIn,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let (watch, can_grow) = watch(&visit, request.query_string(), &typed).await?;
    // In this order an event committed in between is read and also wakes the stream.
    let (to, response) = stream::open(&request)?;
    let feed = visit.services().feed.clone();
    let follower = feed.look(visit.tenant()).map_err(no_seat)?;
    let person = visit.person();
    let seat = visit.state().seat(person.tenant, person.session.clone())?;
    let newest = follow::position(&visit).await?;
    let sent = header(request.headers(), &LAST_EVENT_ID).or(typed.text("after"));
    let seen = sent.and_then(|sent| sent.parse::<i64>().ok());
    let mut following = PageStream {
        visit,
        follower,
        watch,
        can_grow,
        position: seen.unwrap_or(newest).clamp(0, newest),
        is_behind: false,
        to,
    };
    let is_stale = match following.watch {
        // It is sent whole in any case.
        Watch::Part(..) => {
            following.is_behind = following.position < newest;
            following.position = newest;
            false
        }
        Watch::List(_) => following.is_stale(newest).await?,
    };
    rt::spawn(async move {
        let (visit, to) = (following.visit.clone(), following.to.clone());
        // A database error does not end the stream.
        let is_signed_in = async || !matches!(visit.is_signed_in().await, Ok(false));
        stream::run(&to, seat, following.follow(is_stale), is_signed_in).await;
    });
    Ok(response)
}

/// The followed part, and whether new calls are inserted into it.
async fn watch(
    visit: &SignedIn,
    query: &str,
    typed: &FormValues,
) -> Result<(Watch, bool), ApiError> {
    let missing = || ApiError::NotFound(Missing::Route);
    let watched = typed.text("of").unwrap_or_default();
    match watched.parse().map_err(|_| missing())? {
        FollowedPart::Home => {
            let period = Period::read(typed.text("days"));
            Ok((Watch::Part(Part::Home(period), String::new()), false))
        }
        FollowedPart::Calls => {
            let asked = CallQuery::read(query, visit.zone())?.map_err(|_| missing())?;
            let can_grow = typed.text("older").is_none();
            Ok((Watch::List(Box::new(asked)), can_grow))
        }
        FollowedPart::Call(id) => {
            let call = record::find(visit, id).await?;
            Ok((Watch::Part(Part::Call(call.id), String::new()), false))
        }
    }
}

struct PageStream {
    visit: SignedIn,
    follower: Follower,
    watch: Watch,
    can_grow: bool,
    /// Position of the last event that was read.
    position: i64,
    /// The page shows less than that.
    is_behind: bool,
    to: StreamSender,
}

/// The stream has to end.
struct StreamOver;

impl From<stream::StreamEnded> for StreamOver {
    fn from(_: stream::StreamEnded) -> Self {
        Self
    }
}

impl From<DbErr> for StreamOver {
    fn from(error: DbErr) -> Self {
        tracing::warn!(%error, "a live page ends: the store cannot be read");
        Self
    }
}

impl From<ApiError> for StreamOver {
    fn from(error: ApiError) -> Self {
        tracing::warn!(%error, "a live page ends");
        Self
    }
}

/// Summary of a batch of events.
struct EventBatch {
    /// The affected calls; true for those that may be new in the list.
    calls: BTreeMap<CallId, bool>,
    /// True if there was any event.
    any: bool,
    /// The text for screen readers.
    said: Option<&'static str>,
    more: bool,
}

impl PageStream {
    async fn follow(&mut self, is_stale: bool) -> Result<(), StreamOver> {
        self.send(format!("{OPENING}id: {}\n\n", self.position))
            .await?;
        if is_stale {
            return self.send(stream::RELOAD.to_owned()).await;
        }
        if self.is_behind {
            self.part_again().await?;
        }
        let pause = match self.watch {
            Watch::Part(Part::Home(_), _) => HOME_PAUSE,
            _ => PAUSE,
        };
        // One timer for the whole stream: a timer restarted by each event might never fire.
        let mut beat = tokio::time::interval_at(Instant::now() + BEAT, BEAT);
        loop {
            while self.pass_on().await? {}
            tokio::time::sleep(pause).await;
            tokio::select! {
                open = self.follower.woken() => if !open { return Err(StreamOver) },
                _ = beat.tick() => {
                    self.part_again().await?;
                    self.send(STILL_HERE.to_owned()).await?;
                }
            }
        }
    }

    /// True if a list has missed too much.
    async fn is_stale(&self, newest: i64) -> Result<bool, DbErr> {
        if newest - self.position > STALE_WITH_TURNS {
            return Ok(true);
        }
        let missed: Vec<Option<i64>> = event::Entity::of(self.visit.tenant())
            .select_only()
            .column(event::Column::Position)
            .filter(event::Column::Position.gt(self.position))
            .filter(event::Column::Kind.ne(EventKind::CallTurn))
            .limit(STALE + 1)
            .into_tuple()
            .all(self.visit.store().api_reader())
            .await?;
        Ok(missed.len() as u64 > STALE)
    }

    /// Handles the next batch of events. Returns true if there may be more.
    async fn pass_on(&mut self) -> Result<bool, StreamOver> {
        let moved = self.moved().await?;
        if let Some(said) = &moved.said {
            let words = self.visit.t(said);
            self.send(frame(self.position, "said", &words)).await?;
        }
        match &self.watch {
            Watch::Part(Part::Home(_), _) if moved.any => self.part_again().await?,
            Watch::Part(Part::Call(id), _) if moved.calls.contains_key(id) => {
                self.part_again().await?
            }
            Watch::List(_) if !moved.calls.is_empty() => self.rows_again(&moved.calls).await?,
            _ => {}
        }
        Ok(moved.more)
    }

    async fn moved(&mut self) -> Result<EventBatch, DbErr> {
        let rows: Vec<(Option<i64>, Option<CallId>, EventKind)> =
            event::Entity::of(self.visit.tenant())
                .select_only()
                .columns([
                    event::Column::Position,
                    event::Column::CallId,
                    event::Column::Kind,
                ])
                .filter(event::Column::Position.gt(self.position))
                .order_by_asc(event::Column::Position)
                .limit(BATCH)
                .into_tuple()
                .all(self.visit.store().api_reader())
                .await?;
        let more = u64::try_from(rows.len()).is_ok_and(|count| count == BATCH);
        let is_turn = |kind: EventKind| kind == EventKind::CallTurn;
        let any = rows.iter().any(|(.., kind)| !is_turn(*kind));
        let (mut calls, mut said) = (BTreeMap::new(), None);
        for (position, call, kind) in rows {
            self.position = position.unwrap_or(self.position);
            let shows_turns = matches!(self.watch, Watch::Part(Part::Call(_), _));
            if let Some(call) = call.filter(|_| shows_turns || !is_turn(kind)) {
                *calls.entry(call).or_default() |= self.brings_in(kind);
                said = self.tells(call, kind).or(said);
            }
        }
        Ok(EventBatch {
            calls,
            any,
            said,
            more,
        })
    }

    /// The text for screen readers. A filtered list gets none, because it is unknown here whether the call matches.
    fn tells(&self, call: CallId, kind: EventKind) -> Option<&'static str> {
        match (&self.watch, kind) {
            (Watch::Part(Part::Call(id), _), EventKind::CallAnswered) if *id == call => {
                Some("calls-was-answered")
            }
            (Watch::Part(Part::Call(id), _), EventKind::CallEnded) if *id == call => {
                Some("calls-over")
            }
            (Watch::Part(Part::Home(_), _), EventKind::CallStarted) => Some("live-new-call"),
            (Watch::List(asked), EventKind::CallStarted) if self.can_grow && !asked.is_narrow() => {
                Some("live-new-call")
            }
            _ => None,
        }
    }

    /// True if the event can bring a call into the list: its ring, or a change of state if the list is filtered by
    /// state.
    fn brings_in(&self, kind: EventKind) -> bool {
        match (&self.watch, kind) {
            (_, EventKind::CallStarted) => true,
            (Watch::List(asked), EventKind::CallAnswered | EventKind::CallEnded) => {
                asked.filter.status.is_some()
            }
            _ => false,
        }
    }

    /// Sends the followed part if it has changed.
    async fn part_again(&mut self) -> Result<(), StreamOver> {
        let Watch::Part(part, _) = self.watch else {
            return Ok(());
        };
        let turn = self
            .visit
            .services()
            .http
            .gate
            .read(self.visit.tenant())
            .await?;
        let (html, is_over) = match part {
            Part::Home(period) => (home::part(&self.visit, period).await?, false),
            Part::Call(id) => {
                let part = show::part(&self.visit, id, None).await?;
                (part.html, part.is_settled)
            }
        };
        drop(turn);
        let html = html.into_string();
        if let Watch::Part(_, before) = &mut self.watch
            && *before != html
        {
            before.clone_from(&html);
            self.send(frame(self.position, "part", &html)).await?;
        }
        match is_over {
            true => {
                self.send(OVER.to_owned()).await?;
                Err(StreamOver)
            }
            false => Ok(()),
        }
    }

    async fn rows_again(&mut self, moved: &BTreeMap<CallId, bool>) -> Result<(), StreamOver> {
        let Watch::List(asked) = &self.watch else {
            return Ok(());
        };
        let (db, tenant) = (self.visit.store().api_reader(), self.visit.tenant());
        let turn = self.visit.services().http.gate.read(tenant).await?;
        let found = calls::among(db, tenant, None, moved.keys().copied()).await?;
        let wanted = calls::among(db, tenant, Some(&asked.filter), moved.keys().copied()).await?;
        let wanted: BTreeSet<CallId> = wanted.iter().map(|call| call.id).collect();
        let names = CallNames::for_rows(&self.visit, &found).await?;
        drop(turn);
        // Oldest first, because each new row is inserted at the top.
        for call in found.iter().rev() {
            let came_in = moved.get(&call.id).copied().unwrap_or_default();
            let is_new = self.can_grow && came_in && wanted.contains(&call.id);
            let (kind, html): (_, Markup) = match is_new {
                true => ("new", rows::new_row(&self.visit, call, &names)),
                false => ("row", rows::row(&self.visit, call, &names)),
            };
            self.send(frame(self.position, kind, &html.into_string()))
                .await?;
        }
        Ok(())
    }

    async fn send(&self, chunk: String) -> Result<(), StreamOver> {
        Ok(self.to.send(chunk).await?)
    }
}
