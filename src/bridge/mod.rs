//! Telephony bridges: the transports of their messages and commands.
//!
//! [`protocol`] is the wire format, [`ordering`] the order, [`budget`] the limits, [`session`] the WebSocket transport
//! and [`http`] the HTTP transport. Both transports carry the same messages and give the same replies.

mod auth;
mod budget;
mod draft;
pub mod frames;
mod http;
mod newest;
mod ordering;
pub mod protocol;
mod session;
mod ticket;
mod writer;

use std::sync::Arc;

use actix_web::{middleware::from_fn, web};
use tokio::sync::watch;

pub use self::{budget::BridgeBudgets, draft::DraftReader};
use crate::{http::middleware::receive_body, node::Runtime};

/// The state that both transports share.
#[derive(Clone, Debug)]
pub struct BridgeContext {
    pub runtime: Runtime,
    pub budgets: Arc<BridgeBudgets>,
    pub drafts: DraftReader,
    /// Becomes true when the service stops; then sockets are closed with 1001.
    pub stopping: watch::Receiver<bool>,
}

/// Mounts `/bridge/v1`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/bridge/v1")
            .service(
                web::resource("/connect")
                    .wrap(from_fn(auth::require_token))
                    .route(web::get().to(session::connect)),
            )
            .service(
                web::resource("/messages")
                    .wrap(from_fn(receive_body))
                    // The wrapper added last runs first: the token is checked before the body is read.
                    .wrap(from_fn(auth::require_token))
                    .route(web::post().to(http::messages)),
            ),
    );
}
