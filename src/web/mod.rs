//! Calls from browsers: a WebSocket with the audio of a call, for a token that was made for it ([`web_calls`]).
//!
//! [`messages`] is the wire format, [`session`] a call, [`widget`] the button of a website. To the call itself the socket is a leg like a telephone's.
//!
//! [`web_calls`]: crate::operations::web_calls

mod messages;
mod outgoing;
mod session;
mod widget;

use std::sync::Arc;

use actix_web::{
    Error, HttpRequest, HttpResponse,
    http::header::{self, SEC_WEBSOCKET_PROTOCOL},
    web,
};
use dikala_entities::WEB_CALL_SCHEME;
use dikala_telephony::bridge::WebCall;
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc, watch};

use self::session::{BrowserCall, FRAME_BYTES_MAX};
use crate::{
    bridge::frames::upgrade,
    http::{denied::HttpRefusal, error::ApiError},
    node::Runtime,
    operations::web_calls::{self, PATH, TokenFault},
};

/// The WebSocket subprotocol.
const SUBPROTOCOL: &str = "dikala.web.v1";
/// Characters of a browser's name that are kept.
const USER_AGENT_CHARS_MAX: usize = 256;

/// The state of calls from browsers.
#[derive(Clone, Debug)]
pub struct WebContext {
    pub runtime: Runtime,
    /// The telephony bridge of this process, if one runs.
    pub bridge: Option<mpsc::Sender<WebCall>>,
    /// Simultaneous calls from browsers.
    pub places: Arc<Semaphore>,
    /// Becomes true once the service accepts no new calls.
    pub draining: watch::Receiver<bool>,
}

#[derive(Debug, Deserialize)]
struct Opening {
    token: String,
}

/// `GET /web/v1/call`
async fn call(
    request: HttpRequest,
    query: Option<web::Query<Opening>>,
    context: web::Data<WebContext>,
    body: web::Payload,
) -> Result<HttpResponse, Error> {
    let Some(bridge) = context.bridge.clone() else {
        let words = "This node takes no calls from browsers; its operator can enable telephony (telephony.enabled).";
        return Err(HttpRefusal::unavailable("no_telephony", words).into());
    };
    let offered = request.headers().get(SEC_WEBSOCKET_PROTOCOL);
    let mut names = offered.iter().flat_map(|offered| {
        let names = offered.to_str().unwrap_or_default();
        names.split(',').map(str::trim)
    });
    if offered.is_some() && !names.any(|name| name == SUBPROTOCOL) {
        return Err(no_upgrade().into());
    }
    let token = query.as_ref().map(|query| query.token.as_str());
    let token = token.and_then(|token| WEB_CALL_SCHEME.parse(token));
    let token = token.ok_or_else(unknown)?;
    let (runtime, now) = (&context.runtime, context.runtime.clock.now());
    let is_good = web_calls::is_good(&runtime.store, &token, now).await;
    if !is_good.map_err(ApiError::from)? {
        return Err(unknown().into());
    }
    let place = Arc::clone(&context.places).try_acquire_owned();
    let (Ok(place), false) = (place, *context.draining.borrow()) else {
        let words = "Too many calls are running, or the service stops. Try again in a moment.";
        return Err(HttpRefusal::unavailable("unavailable", words).into());
    };
    let opened = upgrade(&request, body, SUBPROTOCOL, FRAME_BYTES_MAX).await;
    let (response, session, frames) = opened.map_err(|_| no_upgrade())?;
    let used = match web_calls::take(&runtime.store, &token, now).await {
        Ok(used) => used,
        Err(TokenFault::Unknown) => return Err(unknown().into()),
        Err(TokenFault::Busy) => {
            let words = "As many visitors talk as this widget allows. Try again in a moment.";
            return Err(HttpRefusal::unavailable("unavailable", words).into());
        }
        Err(TokenFault::Failed(error)) => return Err(ApiError::from(error).into()),
    };
    let agent = request.headers().get(header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    let user_agent = agent.map(|agent| agent.chars().take(USER_AGENT_CHARS_MAX).collect());
    let (call, leg, notes) = BrowserCall::new(session, frames, used.is_detailed);
    let opened = WebCall {
        id: used.hash.as_str().to_owned(),
        agent: used.agent_id,
        caller: used.caller_number,
        user_agent,
        leg,
        notes,
    };
    actix_web::rt::spawn(async move {
        // Without a bridge the leg is dropped, which ends the call.
        let _ = bridge.send(opened).await;
        let is_refused = call.run().await;
        drop(place);
        if is_refused
            && let Err(error) = web_calls::forget(&context.runtime.store, &used.hash).await
        {
            tracing::warn!(%error, "the token of a refused call could not be removed; it counts for its visitor");
        }
    });
    Ok(response)
}

fn no_upgrade() -> HttpRefusal {
    let message = "This address takes WebSocket upgrades with the subprotocol dikala.web.v1.";
    HttpRefusal::bad_request("invalid_upgrade", message)
}

fn unknown() -> HttpRefusal {
    let message = "The token of a call from a browser is good once, for 60 s; this one is missing, unknown, used or too old. Make a \
                   new one with POST /api/v1/agents/{id}/web-calls.";
    HttpRefusal::unauthorized("invalid_web_call_token", message)
}

/// Mounts `/web/v1`, and `/widget.js`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    widget::configure(cfg);
    cfg.service(web::resource(PATH).route(web::get().to(call)));
}
