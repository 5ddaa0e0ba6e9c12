//! Live updates: a stream per open page that renders the page's live parts anew. The script replaces the old parts.
//!
//! Parts are rendered only while a page is open, and sent only if they changed. Forms and buttons are outside of
//! the parts, so that typed text and focus survive.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, ResponseError, rt};
use futures_util::future::LocalBoxFuture;
use maud::Markup;

use super::{
    actors, audit, bridges, call, calls, database, delivery, functions, ledger, nodes, overview,
    requests, tenants, view::ConsoleView, webhooks,
};
use crate::{
    http::error::{ApiError, Missing},
    pages::{
        form::FormValues,
        stream::{self, OPENING, STILL_HERE, StreamEnded, StreamSender, frame},
    },
};

/// Interval at which the parts of a page are rendered.
const EVERY: Duration = Duration::from_secs(1);
/// The interval of pages that need expensive queries.
const SELDOM: Duration = Duration::from_secs(5);
/// Interval of keep-alives while nothing changes.
const QUIET_MAX: Duration = Duration::from_secs(10);

type RenderedParts<'a> = LocalBoxFuture<'a, Result<Vec<Markup>, ApiError>>;
/// Renders the live parts of a page, elements with fixed ids. The parameters are those of the stream's address.
type Make = for<'a> fn(&'a ConsoleView, &'a FormValues) -> RenderedParts<'a>;

/// The renderers of live parts, by name.
const PARTS: &[(&str, Duration, Make)] = &[
    ("overview", EVERY, |visit, asked| {
        one(async { Ok(overview::part(visit, asked).await) })
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
        one(call::part_of_one(visit, asked))
    }),
    ("call-over", SELDOM, |visit, asked| {
        one(call::part_of_one(visit, asked))
    }),
    ("webhooks", EVERY, |visit, asked| {
        one(webhooks::part(visit, asked))
    }),
    ("webhook", EVERY, |visit, asked| {
        one(webhooks::part_of_one(visit, asked))
    }),
    ("delivery", EVERY, |visit, asked| {
        one(delivery::part_of_one(visit, asked))
    }),
    ("functions", EVERY, |visit, asked| {
        one(functions::part(visit, asked))
    }),
    ("http", EVERY, |visit, asked| {
        one(async { requests::part(visit, asked) })
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
pub async fn stream(
    visit: ConsoleView,
    request: HttpRequest,
    asked: FormValues,
) -> Result<HttpResponse, ApiError> {
    let name = asked.text("of").unwrap_or_default();
    let part = PARTS.iter().find(|(part, ..)| *part == name);
    let (_, every, make) = *part.ok_or(ApiError::NotFound(Missing::Route))?;
    // A server error, such as an unavailable database, may be temporary. A client error is permanent.
    let first = match make(&visit, &asked).await {
        Err(error) if error.status_code().is_client_error() => return Err(error),
        first => first.unwrap_or_default(),
    };
    let (events, response) = stream::open(&request)?;
    let seat = visit.state().seat(visit.known())?;
    rt::spawn(async move {
        let work = follow(&visit, &asked, (every, make), first, &events);
        stream::run(&events, seat, work, async || visit.still_may().await).await;
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
