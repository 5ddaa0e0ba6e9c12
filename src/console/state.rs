//! State that all pages of the console share.

use actix_web::{HttpRequest, web::Data};
use dikala_entities::Millis;

use super::{ended::SignedOutSessions, session::BrowserIdentity};
use crate::{
    http::{context::HttpContext, error::ApiError},
    operator::access::{OperatorTokens, Right},
    operator_api::OperatorContext,
    pages::seats::{StreamSeat, StreamSeats},
};

/// Concurrent streams of pages; each renders its page every second or more rarely.
const STREAMS_MAX: usize = 32;

/// State that all pages share, as application data.
#[derive(Debug)]
pub struct ConsoleState {
    /// The context of the operators' API, whose handlers the pages call.
    pub process: Data<OperatorContext>,
    pub ended: SignedOutSessions,
    tokens: Data<OperatorTokens>,
    http: Data<HttpContext>,
    streams: StreamSeats<()>,
}

impl ConsoleState {
    pub fn new(
        process: Data<OperatorContext>,
        tokens: Data<OperatorTokens>,
        http: Data<HttpContext>,
    ) -> Self {
        Self {
            ended: SignedOutSessions::new(process.node.store.clone()),
            process,
            tokens,
            http,
            streams: StreamSeats::new(STREAMS_MAX, STREAMS_MAX),
        }
    }

    pub fn now(&self) -> Millis {
        self.process.now()
    }

    pub fn tokens(&self) -> &OperatorTokens {
        &self.tokens
    }

    /// The access right of a request, by its session or by a token that it carries.
    pub async fn right_of(&self, known: &BrowserIdentity, request: &HttpRequest) -> Option<Right> {
        match known.session {
            Some(_) => self.right(known).await,
            None => self.tokens.shown(&self.http, request).await,
        }
    }

    /// The access right of a session, if it is active.
    pub async fn right(&self, known: &BrowserIdentity) -> Option<Right> {
        let session = known.session.as_ref()?;
        let right = session.right(&self.tokens, self.now())?;
        (!self.ended.has(session).await).then_some(right)
    }

    /// The access right of this token.
    pub async fn prove(&self, request: &HttpRequest, token: &str) -> Result<Right, ApiError> {
        self.tokens.prove(&self.http, request, Some(token)).await
    }

    /// Reserves a place for the stream of a browser's page.
    pub fn seat(&self, known: &BrowserIdentity) -> Result<StreamSeat<()>, ApiError> {
        let seat = self.streams.take((), known.id.hash());
        seat.map_err(|_| ApiError::Unavailable)
    }
}
