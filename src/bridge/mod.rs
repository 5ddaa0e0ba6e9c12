//! Telephony bridges: how their messages come in and how commands reach them.
//!
//! [`protocol`] is the wire format, [`lanes`] the order, [`budget`] how much a bridge may have under way, [`session`] the WebSocket
//! transport and [`http`] the other one. Both transports carry the same messages and give the same replies.

mod auth;
mod budget;
mod frames;
mod http;
mod lanes;
mod newest;
pub mod protocol;
mod session;
mod ticket;

use std::sync::Arc;

use actix_web::{middleware::from_fn, web};
use tokio::sync::watch;

pub use self::budget::Budgets;
use crate::{http::middleware::receive_body, node::Node};

/// What the transports work with.
#[derive(Clone, Debug)]
pub struct BridgeParts {
    pub node: Node,
    pub budgets: Arc<Budgets>,
    /// Turns true when the service stops: sockets are closed with 1001.
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
                    // The last one is the first to be asked: nobody's body is read before his token.
                    .wrap(from_fn(auth::require_token))
                    .route(web::post().to(http::messages)),
            ),
    );
}
