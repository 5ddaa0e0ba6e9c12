//! What changes by itself while somebody looks: one stream for each page, of pieces of that page as the server would write them
//! now. The script puts them in the place of the old ones.
//!
//! Whoever follows is woken by the tenant's events and reads what they are about; a page that was hidden says where it stopped,
//! and gets what has happened since. The stream ends with the session.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use actix_web::{HttpRequest, HttpResponse, http::header::HeaderName, rt};
use dikala_actors::events::followers::Follower;
use dikala_entities::{CallId, EventKind, OfTenant, TenantId, event};
use maud::Markup;
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use tokio::time::Instant;

use super::{
    calls::{
        filter::Asked,
        record,
        rows::{self, Names},
        show,
    },
    follow::{self, Watched},
    form::Typed,
    home,
    view::Visit,
};
use crate::{
    api::{calls, events::no_seat},
    http::error::{ApiError, Missing},
    pages::{
        headers::header,
        seats::Seat,
        stream::{self, Events, OPENING, OVER, SEAT_TAKEN, STILL_HERE, frame},
    },
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How often a stream shows that it lives, and what changes without an event is looked at.
const BEAT: Duration = Duration::from_secs(10);
/// The time between two looks at what is new, so that a thousand calls an hour are not a thousand pages an hour.
const PAUSE: Duration = Duration::from_millis(300);
/// The same for the first page, which changes with every call.
const HOME_PAUSE: Duration = Duration::from_secs(2);
/// How often the session is looked at, whether anything happens or not.
const SESSION_EVERY: Duration = Duration::from_millis(500);
/// Events in one look.
const BATCH: u64 = 200;
/// Events after which a page is loaded anew rather than mended.
const STALE: i64 = 200;

/// What somebody looks at.
enum Watch {
    List(Box<Asked>),
    /// A part of a page, and how it was sent last.
    Part(Part, String),
}

#[derive(Clone, Copy)]
enum Part {
    Home,
    Call(CallId),
}

/// `GET /dashboard/live`: server-sent events. `row` and `part` are elements that replace those with their ids, `new` is a row
/// that goes on top where it is not there yet, `stale` says that the page is too old to be mended. Their ids are places of
/// events; the last one comes back as `after`, or in the header that browsers send by themselves. `said` is the text for screen
/// readers, `over` says that nothing will change any more, `closed` that another page of the session has the seat.
pub async fn stream(visit: Visit, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (watch, can_grow) = watch(&visit, request.query_string()).await?;
    // In this order: what is committed between the two is read, and wakes.
    let (to, response) = stream::open(&request)?;
    let feed = visit.services().feed.clone();
    let follower = feed.look(visit.tenant()).map_err(no_seat)?;
    let person = visit.person();
    let seat = visit.kit().seat(person.tenant, person.session.clone())?;
    let newest = follow::position(&visit).await?;
    let after = Typed::parse(request.query_string().as_bytes());
    let sent = header(request.headers(), &LAST_EVENT_ID).or(after.text("after"));
    let seen = sent.and_then(|sent| sent.parse::<i64>().ok());
    let following = Following {
        visit,
        follower,
        watch,
        can_grow,
        position: seen.unwrap_or(newest).clamp(0, newest),
        to,
    };
    let is_stale = newest - following.position > STALE;
    rt::spawn(following.run(is_stale, seat));
    Ok(response)
}

/// What is looked at, and whether new calls are put on top of it.
async fn watch(visit: &Visit, query: &str) -> Result<(Watch, bool), ApiError> {
    let typed = Typed::parse(query.as_bytes());
    let missing = || ApiError::NotFound(Missing::Route);
    let watched = typed.text("of").unwrap_or_default();
    match watched.parse().map_err(|_| missing())? {
        Watched::Home => Ok((Watch::Part(Part::Home, String::new()), false)),
        Watched::Calls => {
            let asked = Asked::read(query, visit.zone())?.map_err(|_| missing())?;
            let can_grow = typed.text("older").is_none();
            Ok((Watch::List(Box::new(asked)), can_grow))
        }
        Watched::Call(id) => {
            let call = record::find(visit, id).await?;
            Ok((Watch::Part(Part::Call(call.id), String::new()), false))
        }
    }
}

/// One open stream.
struct Following {
    visit: Visit,
    follower: Follower,
    watch: Watch,
    can_grow: bool,
    /// Of the last event that was looked at.
    position: i64,
    to: Events,
}

/// The stream is over.
struct Over;

impl From<stream::Over> for Over {
    fn from(_: stream::Over) -> Self {
        Self
    }
}

impl From<DbErr> for Over {
    fn from(error: DbErr) -> Self {
        tracing::warn!(%error, "a live page ends: the store cannot be read");
        Self
    }
}

impl From<ApiError> for Over {
    fn from(error: ApiError) -> Self {
        tracing::warn!(%error, "a live page ends");
        Self
    }
}

/// What the next events are about.
struct Moved {
    /// The calls, and whether they may have come in.
    calls: BTreeMap<CallId, bool>,
    /// There was anything at all.
    any: bool,
    /// The text for screen readers.
    said: Option<&'static str>,
    more: bool,
}

impl Following {
    /// Ends when the page goes or reads too slowly, when the session is over, or when the service stops.
    async fn run(mut self, is_stale: bool, mut seat: Seat<TenantId>) {
        let (visit, to) = (self.visit.clone(), self.to.clone());
        tokio::select! {
            // How it ended makes no difference.
            _ = self.follow(is_stale) => {}
            () = signed_out(&visit) => {}
            () = to.closed() => {}
            () = seat.lost() => {
                // A page that does not take this is gone.
                let _ = to.send(SEAT_TAKEN.to_owned()).await;
            }
        }
    }

    async fn follow(&mut self, is_stale: bool) -> Result<(), Over> {
        self.send(format!("{OPENING}id: {}\n\n", self.position))
            .await?;
        if is_stale {
            return self.send("event: stale\ndata:\n\n".to_owned()).await;
        }
        let pause = match self.watch {
            Watch::Part(Part::Home, _) => HOME_PAUSE,
            _ => PAUSE,
        };
        // One for the whole stream: a wait that restarts with each event would never end if there are many.
        let mut beat = tokio::time::interval_at(Instant::now() + BEAT, BEAT);
        loop {
            while self.pass_on().await? {}
            tokio::time::sleep(pause).await;
            tokio::select! {
                open = self.follower.woken() => if !open { return Err(Over) },
                _ = beat.tick() => {
                    self.part_again().await?;
                    self.send(STILL_HERE.to_owned()).await?;
                }
            }
        }
    }

    /// Looks at the next events. Whether there may be more.
    async fn pass_on(&mut self) -> Result<bool, Over> {
        let moved = self.moved().await?;
        if let Some(said) = &moved.said {
            let words = self.visit.t(said);
            self.send(frame(self.position, "said", &words)).await?;
        }
        match &self.watch {
            Watch::Part(Part::Home, _) if moved.any => self.part_again().await?,
            Watch::Part(Part::Call(id), _) if moved.calls.contains_key(id) => {
                self.part_again().await?
            }
            Watch::List(_) if !moved.calls.is_empty() => self.rows_again(&moved.calls).await?,
            _ => {}
        }
        Ok(moved.more)
    }

    async fn moved(&mut self) -> Result<Moved, DbErr> {
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
        let any = !rows.is_empty();
        let (mut calls, mut said) = (BTreeMap::new(), None);
        for (position, call, kind) in rows {
            self.position = position.unwrap_or(self.position);
            if let Some(call) = call {
                *calls.entry(call).or_default() |= self.brings_in(kind);
                said = self.tells(call, kind).or(said);
            }
        }
        Ok(Moved {
            calls,
            any,
            said,
            more,
        })
    }

    /// The text for screen readers. Empty for a filtered list, because it is not known here whether the call is in it.
    fn tells(&self, call: CallId, kind: EventKind) -> Option<&'static str> {
        match (&self.watch, kind) {
            (Watch::Part(Part::Call(id), _), EventKind::CallAnswered) if *id == call => {
                Some("calls-was-answered")
            }
            (Watch::Part(Part::Call(id), _), EventKind::CallEnded) if *id == call => {
                Some("calls-over")
            }
            (Watch::Part(Part::Home, _), EventKind::CallStarted) => Some("live-new-call"),
            (Watch::List(asked), EventKind::CallStarted) if self.can_grow && !asked.is_narrow() => {
                Some("live-new-call")
            }
            _ => None,
        }
    }

    /// Whether a call may stand in the list since that happened to it: its ring, and with a state asked for what changes that.
    fn brings_in(&self, kind: EventKind) -> bool {
        match (&self.watch, kind) {
            (_, EventKind::CallStarted) => true,
            (Watch::List(asked), EventKind::CallAnswered | EventKind::CallEnded) => {
                asked.filter.status.is_some()
            }
            _ => false,
        }
    }

    /// Sends the part that is looked at, if it is not as it was.
    async fn part_again(&mut self) -> Result<(), Over> {
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
            Part::Home => (home::part(&self.visit).await?, false),
            Part::Call(id) => {
                let part = show::part(&self.visit, id, 0).await?;
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
                Err(Over)
            }
            false => Ok(()),
        }
    }

    async fn rows_again(&mut self, moved: &BTreeMap<CallId, bool>) -> Result<(), Over> {
        let Watch::List(asked) = &self.watch else {
            return Ok(());
        };
        let (db, tenant) = (self.visit.store().api_reader(), self.visit.tenant());
        let turn = self.visit.services().http.gate.read(tenant).await?;
        let found = calls::among(db, tenant, None, moved.keys().copied()).await?;
        let wanted = calls::among(db, tenant, Some(&asked.filter), moved.keys().copied()).await?;
        let wanted: BTreeSet<CallId> = wanted.iter().map(|call| call.id).collect();
        let names = Names::and_hands(&self.visit, &found).await?;
        drop(turn);
        // The oldest first: each new one goes on top of those before it.
        for call in found.iter().rev() {
            let came_in = moved.get(&call.id).copied().unwrap_or_default();
            let is_new = self.can_grow && came_in && wanted.contains(&call.id);
            let html: Markup = rows::row(&self.visit, call, &names);
            let kind = if is_new { "new" } else { "row" };
            self.send(frame(self.position, kind, &html.into_string()))
                .await?;
        }
        Ok(())
    }

    async fn send(&self, chunk: String) -> Result<(), Over> {
        Ok(self.to.send(chunk).await?)
    }
}

/// Waits until the session is over. A store that is away says nothing.
async fn signed_out(visit: &Visit) {
    loop {
        tokio::time::sleep(SESSION_EVERY).await;
        if matches!(visit.is_signed_in().await, Ok(false)) {
            return;
        }
    }
}
