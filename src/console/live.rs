//! Live updates: a stream per open page that renders the page's live parts anew. The script replaces the old parts.
//!
//! Parts are rendered only while a page is open, and sent only if they changed. Forms and buttons are outside of
//! the parts, so that typed text and focus survive.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, ResponseError, rt};
use futures_util::future::LocalBoxFuture;
use maud::Markup;

use super::{
    actors, audit, bridges, calls, database, functions, ledger, nodes, overview, requests, tenants,
    view::ConsoleView, webhooks,
};
use crate::{
    http::error::{ApiError, Missing},
    pages::{
        form::FormValues,
        stream::{self, OPENING, SEAT_TAKEN, STILL_HERE, StreamEnded, StreamSender, frame},
    },
};

/// Interval at which the parts of a page are rendered.
const EVERY: Duration = Duration::from_secs(1);
/// The interval of pages that need expensive queries.
const SELDOM: Duration = Duration::from_secs(5);
/// Interval at which session and connection are checked.
const SESSION_EVERY: Duration = Duration::from_millis(500);
/// Interval of keep-alives while nothing changes.
const QUIET_MAX: Duration = Duration::from_secs(10);

type RenderedParts<'a> = LocalBoxFuture<'a, Result<Vec<Markup>, ApiError>>;
/// Renders the live parts of a page, elements with fixed ids. The parameters are those of the stream's address.
type Make = for<'a> fn(&'a ConsoleView, &'a FormValues) -> RenderedParts<'a>;

/// The renderers of live parts, by name.
const PARTS: &[(&str, Duration, Make)] = &[
    ("overview", EVERY, |visit, _| {
        one(async { Ok(overview::part(visit).await) })
    }),
    ("actors", EVERY, |visit, _| {
        one(async { Ok(actors::part(visit).await) })
    }),
    ("actor", EVERY, |visit, asked| {
        one(actors::instances(visit, asked))
    }),
    ("calls", EVERY, |visit, asked| {
        one(calls::part(visit, asked))
    }),
    ("call", EVERY, |visit, asked| {
        one(calls::part_of_one(visit, asked))
    }),
    ("webhooks", EVERY, |visit, asked| {
        one(webhooks::part(visit, asked))
    }),
    ("webhook", EVERY, |visit, asked| {
        one(webhooks::part_of_one(visit, asked))
    }),
    ("functions", EVERY, |visit, asked| {
        one(functions::part(visit, asked))
    }),
    ("http", EVERY, |visit, asked| {
        one(requests::part(visit, asked))
    }),
    ("bridges", EVERY, |visit, asked| {
        one(bridges::part(visit, asked))
    }),
    ("nodes", EVERY, |visit, _| {
        one(async { Ok(nodes::part(visit).await) })
    }),
    ("ledger", SELDOM, |visit, _| {
        Box::pin(async { Ok(ledger::parts(visit).await?.into()) })
    }),
    ("database", SELDOM, |visit, _| {
        one(async { Ok(database::part(visit).await) })
    }),
    ("tenants", SELDOM, |visit, _| one(tenants::part(visit))),
    ("audit", SELDOM, |visit, _| one(audit::part(visit))),
];

/// Wraps a single part.
fn one<'a>(part: impl Future<Output = Result<Markup, ApiError>> + 'a) -> RenderedParts<'a> {
    Box::pin(async { Ok(vec![part.await?]) })
}

/// `GET /live?of={name}`: server-sent events, of the kind `part`.
pub async fn stream(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let asked = FormValues::parse(request.query_string().as_bytes());
    let name = asked.text("of").unwrap_or_default();
    let part = PARTS.iter().find(|(part, ..)| *part == name);
    let (_, every, make) = *part.ok_or(ApiError::NotFound(Missing::Route))?;
    // A server error, such as an unavailable database, may be temporary. A client error is permanent.
    let first = match make(&visit, &asked).await {
        Err(error) if error.status_code().is_client_error() => return Err(error),
        first => first.unwrap_or_default(),
    };
    let (events, response) = stream::open(&request)?;
    let mut seat = visit.state().seat(visit.known())?;
    rt::spawn(async move {
        tokio::select! {
            // Every outcome ends the stream.
            _ = follow(&visit, &asked, (every, make), first, &events) => {}
            () = signed_out(&visit) => {}
            () = events.closed() => {}
            () = seat.lost() => {
                // If this cannot be sent, the page is gone already.
                let _ = events.send(SEAT_TAKEN.to_owned()).await;
            }
        }
    });
    Ok(response)
}

async fn follow(
    visit: &ConsoleView,
    asked: &FormValues,
    (every, make): (Duration, Make),
    first: Vec<Markup>,
    events: &StreamSender,
) -> Result<(), StreamEnded> {
    events.send(format!("{OPENING}\n")).await?;
    let (mut before, mut quiet, mut position) = (Vec::new(), Duration::ZERO, 0_i64);
    let mut made = first;
    loop {
        quiet += every;
        before.resize(made.len().max(before.len()), String::new());
        for (before, part) in before.iter_mut().zip(made) {
            let part = part.into_string();
            if part != *before {
                position = position.saturating_add(1);
                events.send(frame(position, "part", &part)).await?;
                (*before, quiet) = (part, Duration::ZERO);
            }
        }
        if quiet >= QUIET_MAX {
            events.send(STILL_HERE.to_owned()).await?;
            quiet = Duration::ZERO;
        }
        tokio::time::sleep(every).await;
        made = make(visit, asked).await.unwrap_or_default();
    }
}

/// Returns once the session has ended.
async fn signed_out(visit: &ConsoleView) {
    while visit.still_may().await {
        tokio::time::sleep(SESSION_EVERY).await;
    }
}
