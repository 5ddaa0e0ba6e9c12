//! What changes by itself while somebody looks: one stream for each page, of the parts of that page as the server would write them
//! now. The script puts each in the place of the old one. Nothing is sent while nothing changed, and nothing is made while nobody
//! looks. Forms and buttons stand outside of the parts: what somebody is typing stays, and so does the keyboard.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, ResponseError, rt};
use futures_util::future::LocalBoxFuture;
use maud::Markup;

use super::{
    actors, audit, bridges, calls, database, functions, ledger, nodes, overview, requests, tenants,
    view::Visit, webhooks,
};
use crate::{
    http::error::{ApiError, Missing},
    pages::{
        form::Typed,
        stream::{self, Events, OPENING, Over, SEAT_TAKEN, STILL_HERE, frame},
    },
};

/// How often the parts of a page are made again.
const EVERY: Duration = Duration::from_secs(1);
/// The same where the database has more to look at than a few rows.
const SELDOM: Duration = Duration::from_secs(5);
/// How often it is looked whether the session holds and the page is there.
const SESSION_EVERY: Duration = Duration::from_millis(500);
/// After such a time without a change a stream shows that it lives.
const QUIET_MAX: Duration = Duration::from_secs(10);

type Made<'a> = LocalBoxFuture<'a, Result<Vec<Markup>, ApiError>>;
/// Makes the parts of a page: elements with ids that do not change. What is asked is what stands in the address of the stream.
type Make = for<'a> fn(&'a Visit, &'a Typed) -> Made<'a>;

/// The parts of pages that change, by name.
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
    ("database", SELDOM, |visit, asked| {
        Box::pin(async { Ok(database::parts(visit, asked).await?.into()) })
    }),
    ("tenants", SELDOM, |visit, _| one(tenants::part(visit))),
    ("audit", SELDOM, |visit, _| one(audit::part(visit))),
];

/// Of a page with one part.
fn one<'a>(part: impl Future<Output = Result<Markup, ApiError>> + 'a) -> Made<'a> {
    Box::pin(async { Ok(vec![part.await?]) })
}

/// `GET /live?of={name}`: server-sent events, of the kind `part`.
pub async fn stream(visit: Visit, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let asked = Typed::parse(request.query_string().as_bytes());
    let name = asked.text("of").unwrap_or_default();
    let part = PARTS.iter().find(|(part, ..)| *part == name);
    let (_, every, make) = *part.ok_or(ApiError::NotFound(Missing::Route))?;
    // What cannot be made now, while the database is away, can be made later; what is not there cannot.
    let first = match make(&visit, &asked).await {
        Err(error) if error.status_code().is_client_error() => return Err(error),
        first => first.unwrap_or_default(),
    };
    let (events, response) = stream::open(&request)?;
    let mut seat = visit.kit().seat(visit.known())?;
    rt::spawn(async move {
        tokio::select! {
            // How it ended makes no difference.
            _ = follow(&visit, &asked, (every, make), first, &events) => {}
            () = signed_out(&visit) => {}
            () = events.closed() => {}
            () = seat.lost() => {
                // A page that does not take this is gone.
                let _ = events.send(SEAT_TAKEN.to_owned()).await;
            }
        }
    });
    Ok(response)
}

async fn follow(
    visit: &Visit,
    asked: &Typed,
    (every, make): (Duration, Make),
    first: Vec<Markup>,
    events: &Events,
) -> Result<(), Over> {
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

/// Waits until the session is over.
async fn signed_out(visit: &Visit) {
    while visit.still_may().await {
        tokio::time::sleep(SESSION_EVERY).await;
    }
}
