//! The route of our requests inside a call. It is looked up once and kept. While an open flow leads to the peer, requests wait only a
//! moment for the look-up.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared as SharedFuture, ready},
};
use tokio::{
    task::JoinHandle,
    time::{Duration, Instant, timeout_at},
};

use super::CallParties;
use crate::{dialog::Dialog, ladder::MessageSocket, message::Uri, shared::Shared, transport::Flow};

/// The longest wait for a look-up, while an open flow leads to the peer.
const PATIENCE: Duration = Duration::from_millis(500);

/// The flow to the next hop of a dialog, once a request needs it.
#[derive(Debug, Clone, Default)]
pub struct DialogRoute(Arc<Mutex<Option<LookUp>>>);

/// A look-up, with the basis of its result.
#[derive(Debug, Clone)]
struct LookUp {
    hop: Uri,
    /// The flow of the peer's last request.
    known: MessageSocket,
    found: SharedFuture<BoxFuture<'static, Result<Flow, io::ErrorKind>>>,
    /// When requests do not wait for it any more.
    until: Instant,
}

impl DialogRoute {
    /// The route of a request: `known`, where the peer's last request came from, or the flow to the dialog's next hop. `known` too if
    /// that is not found in time. It is ready at once if no name has to be looked up and no connection to be opened.
    pub fn find(
        &self,
        shared: &Arc<Shared>,
        caller: &CallParties,
        dialog: &Dialog,
        known: &Flow,
    ) -> BoxFuture<'static, io::Result<Flow>> {
        let is_direct = known.is_reliable() || dialog.routes.is_empty() || !caller.is_trunk_itself;
        if known.is_open() && is_direct {
            return ready(Ok(known.clone())).boxed();
        }
        let LookUp { found, until, .. } = self.look_up(shared, caller, dialog.next_hop(), known);
        let known = known.clone();
        Box::pin(async move {
            if !known.is_open() {
                return found.await.map_err(io::Error::from);
            }
            let found = timeout_at(until, found).await;
            let found = found.ok().and_then(Result::ok).filter(Flow::is_open);
            Ok(found.unwrap_or(known))
        })
    }

    /// The current look-up, or a new one if its basis has changed or its connection is gone.
    fn look_up(
        &self,
        shared: &Arc<Shared>,
        caller: &CallParties,
        hop: Uri,
        known: &Flow,
    ) -> LookUp {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = known.socket();
        let is_current = |kept: &&LookUp| {
            let is_usable = match kept.found.peek() {
                None => true,
                Some(found) => found.as_ref().is_ok_and(Flow::is_open),
            };
            is_usable && kept.hop == hop && kept.known == socket
        };
        if let Some(kept) = kept.as_ref().filter(is_current) {
            return kept.clone();
        }
        let begun = LookUp {
            found: begin(shared, caller, &hop, known).shared(),
            hop,
            known: socket,
            until: Instant::now() + PATIENCE,
        };
        kept.insert(begun).clone()
    }

    /// A request over the route was not answered: the next one is routed anew.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Looks the route up, in a task unless it is ready at once: requests may stop waiting for it.
fn begin(
    shared: &Arc<Shared>,
    caller: &CallParties,
    hop: &Uri,
    known: &Flow,
) -> BoxFuture<'static, Result<Flow, io::ErrorKind>> {
    let (shared, trunk) = (shared.clone(), caller.named_by_trunk().cloned());
    let (hop, known) = (hop.clone(), known.clone());
    let mut route = Box::pin(async move {
        let found = shared.flow_within(trunk.as_ref(), &hop, &known).await;
        found.map_err(|error| error.kind())
    });
    match (&mut route).now_or_never() {
        Some(found) => ready(found).boxed(),
        None => {
            let found: JoinHandle<_> = tokio::spawn(route);
            found
                .map(|found| found.unwrap_or(Err(io::ErrorKind::Other)))
                .boxed()
        }
    }
}
