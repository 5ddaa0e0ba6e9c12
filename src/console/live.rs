//! What changes by itself while somebody looks: one stream for each page, of the part of that page as the server would write it now.
//! The script puts it in the place of the old one. Nothing is sent while nothing changed, and nothing is made while nobody looks.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, ResponseError, rt};
use futures_util::future::LocalBoxFuture;
use maud::Markup;

use super::{actors, calls, functions, overview, requests, view::Visit, webhooks};
use crate::{
    http::error::{ApiError, Missing},
    pages::{
        form::Typed,
        stream::{self, Events, OPENING, Over, STILL_HERE, frame},
    },
};

/// How often a part is made again.
const EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether the session holds and the page is there.
const SESSION_EVERY: Duration = Duration::from_millis(500);
/// After so many times without a change a stream shows that it lives.
const QUIET_MAX: u32 = 10;

/// Makes a part of a page: the element with the id `part`. What is asked is what stands in the address of the stream.
type Make = for<'a> fn(&'a Visit, &'a Typed) -> LocalBoxFuture<'a, Result<Markup, ApiError>>;

/// The parts of pages that change, by name.
const PARTS: &[(&str, Make)] = &[
    ("overview", |visit, _| {
        Box::pin(async { Ok(overview::part(visit).await) })
    }),
    ("actors", |visit, _| {
        Box::pin(async { Ok(actors::part(visit).await) })
    }),
    ("actor", |visit, asked| {
        Box::pin(actors::instances(visit, asked))
    }),
    ("calls", calls::part),
    ("call", calls::part_of_one),
    ("webhooks", webhooks::part),
    ("functions", functions::part),
    ("http", requests::part),
];

/// `GET /live?of={name}`: server-sent events, of the kind `part`.
pub async fn stream(visit: Visit, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let asked = Typed::parse(request.query_string().as_bytes());
    let name = asked.text("of").unwrap_or_default();
    let part = PARTS.iter().find(|(part, _)| *part == name);
    let (_, make) = *part.ok_or(ApiError::NotFound(Missing::Route))?;
    // What cannot be made now, while the database is away, can be made later; what is not there cannot.
    let first = match make(&visit, &asked).await {
        Err(error) if error.status_code().is_client_error() => return Err(error),
        first => first.unwrap_or_default(),
    };
    let seat = visit.kit().stream()?;
    let (events, response) = stream::open();
    rt::spawn(async move {
        tokio::select! {
            // How it ended makes no difference.
            _ = follow(&visit, &asked, make, first, &events) => {}
            () = signed_out(&visit) => {}
            () = events.closed() => {}
        }
        drop(seat);
    });
    Ok(response)
}

async fn follow(
    visit: &Visit,
    asked: &Typed,
    make: Make,
    first: Markup,
    events: &Events,
) -> Result<(), Over> {
    events.send(format!("{OPENING}\n")).await?;
    let (mut before, mut quiet, mut position) = (String::new(), 0, 0_i64);
    let mut made = first.into_string();
    loop {
        if !made.is_empty() && made != before {
            position = position.saturating_add(1);
            events.send(frame(position, "part", &made)).await?;
            (before, quiet) = (made, 0);
        } else {
            quiet += 1;
            if quiet == QUIET_MAX {
                events.send(STILL_HERE.to_owned()).await?;
                quiet = 0;
            }
        }
        tokio::time::sleep(EVERY).await;
        made = make(visit, asked).await.unwrap_or_default().into_string();
    }
}

/// Waits until the session is over.
async fn signed_out(visit: &Visit) {
    while visit.still_may().await {
        tokio::time::sleep(SESSION_EVERY).await;
    }
}
