//! The network to shared state and back. The simulation decides when a request is carried out, whole or not at all;
//! its answer comes later or never. Without an answer, the sender does not know if it was carried out.

use std::fmt;

use tokio::sync::{mpsc, oneshot};

/// No answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// Sends the answer.
pub(crate) type SendAnswer = Box<dyn FnOnce() + Send>;

/// The effect of a request on the shared state, by that state's clock.
pub(crate) type ApplyRequest<S> = Box<dyn FnOnce(&mut S, i64) -> SendAnswer + Send>;

/// A request in transit. Dropping it loses it.
pub(crate) struct NetworkRequest<S> {
    pub(crate) what: &'static str,
    pub(crate) carry_out: ApplyRequest<S>,
}

/// The network to one state shared by all nodes.
pub(crate) struct SimulatedNetwork<S>(mpsc::UnboundedSender<NetworkRequest<S>>);

impl<S> Clone for SimulatedNetwork<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> fmt::Debug for SimulatedNetwork<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl<S> SimulatedNetwork<S> {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<NetworkRequest<S>>) {
        let (asked, asks) = mpsc::unbounded_channel();
        (Self(asked), asks)
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        carry_out: impl FnOnce(&mut S, i64) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        let asked = NetworkRequest {
            what,
            carry_out: Box::new(move |shared: &mut S, now| {
                let said = carry_out(shared, now);
                Box::new(move || drop(answer.send(said)))
            }),
        };
        self.0.send(asked).map_err(|_| NoAnswer)?;
        answered.await.map_err(|_| NoAnswer)
    }
}
