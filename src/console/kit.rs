//! What every page of the console can reach.

use actix_web::{HttpRequest, web::Data};
use dikala_entities::Millis;

use super::{ended::Ended, session::Known};
use crate::{
    http::{context::HttpContext, error::ApiError},
    operator::access::{Right, Tokens},
    operator_api::Desk,
    pages::seats::{Seat, Seats},
};

/// Streams of pages that are open at once; each costs a page's reading and writing every second or two.
const STREAMS_MAX: usize = 32;

/// What every page can reach. Data of the application.
#[derive(Debug)]
pub struct Kit {
    /// What the operators' API works with; pages call its handlers.
    pub desk: Data<Desk>,
    pub ended: Ended,
    tokens: Data<Tokens>,
    http: Data<HttpContext>,
    streams: Seats<()>,
}

impl Kit {
    /// Nobody is signed in yet.
    pub fn new(desk: Data<Desk>, tokens: Data<Tokens>, http: Data<HttpContext>) -> Self {
        Self {
            ended: Ended::new(desk.node.store.clone()),
            desk,
            tokens,
            http,
            streams: Seats::new(STREAMS_MAX, STREAMS_MAX),
        }
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.desk.now()
    }

    /// Who may come.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// What a request may do: by its session, or by a token that it shows itself.
    pub async fn right_of(&self, known: &Known, request: &HttpRequest) -> Option<Right> {
        match known.session {
            Some(_) => self.right(known).await,
            None => self.tokens.shown(&self.http, request).await,
        }
    }

    /// What a browser's session lets its holder do, if it is in force.
    pub async fn right(&self, known: &Known) -> Option<Right> {
        let session = known.session.as_ref()?;
        let right = session.right(&self.tokens, self.now())?;
        (!self.ended.has(session).await).then_some(right)
    }

    /// What a token lets its holder do who shows it with this request.
    pub async fn prove(&self, request: &HttpRequest, token: &str) -> Result<Right, ApiError> {
        self.tokens.prove(&self.http, request, Some(token)).await
    }

    /// A seat for the stream of a browser's page.
    pub fn seat(&self, known: &Known) -> Result<Seat<()>, ApiError> {
        let seat = self.streams.take((), known.id.hash());
        seat.map_err(|_| ApiError::Unavailable)
    }
}
