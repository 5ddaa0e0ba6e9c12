//! Replies to messages. The context inspects each reply on its way to the sender and counts errors, so no handler has
//! to. Exception: outcomes of postings, which do not pass the context (`PostingReply`).

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::metrics::MessageMeter;

/// The reply to a message.
pub trait MessageReply: Send + 'static {
    /// False if a reply is never an error; it then goes to the sender without inspection.
    const MAY_FAIL: bool = false;

    /// True if the reply says that the request was not carried out, for whatever reason.
    fn is_error(&self) -> bool {
        false
    }
}

impl MessageReply for () {}

impl<T: Send + 'static> MessageReply for Option<T> {}

impl<K: Send + 'static, V: Send + 'static> MessageReply for HashMap<K, V> {}

impl<T: Send + 'static, E: Send + 'static> MessageReply for Result<T, E> {
    const MAY_FAIL: bool = true;

    fn is_error(&self) -> bool {
        self.is_err()
    }
}

/// A channel for the handler's reply, which is inspected before it reaches the sender. A handler that drops the
/// channel sends no reply: its future panicked or its actor was given up.
pub(super) fn watched<T: MessageReply>(
    meter: &'static MessageMeter,
    asker: Option<oneshot::Sender<T>>,
) -> Option<oneshot::Sender<T>> {
    if !T::MAY_FAIL {
        return asker;
    }
    let (answer, answered) = oneshot::channel::<T>();
    actix_rt::spawn(async move {
        let answered = answered.await;
        if answered.as_ref().map_or(true, MessageReply::is_error) {
            meter.failed();
        }
        if let (Some(asker), Ok(answer)) = (asker, answered) {
            // The sender may have stopped waiting.
            let _ = asker.send(answer);
        }
    });
    Some(answer)
}

#[cfg(test)]
mod tests {
    use actix::{Actor, AtomicResponse, Handler, Message, Supervised, WrapFuture};

    use crate::{
        metered,
        runtime::context::{Metered, MeteredContext, OnPanic},
    };

    /// Fails in every possible way. Each test uses a message type of its own.
    struct Failing;

    impl Actor for Failing {
        type Context = MeteredContext<Self>;
    }

    impl Supervised for Failing {}

    metered!(Failing, "failing");

    #[derive(Clone, Copy, Debug)]
    enum How {
        Well,
        Error,
        Panic,
        LatePanic,
    }

    #[derive(Message)]
    #[rtype(result = "Result<(), &'static str>")]
    struct Do(How);

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Note(How);

    impl Handler<Do> for Failing {
        type Result = AtomicResponse<Self, Result<(), &'static str>>;

        fn handle(&mut self, Do(how): Do, _: &mut MeteredContext<Self>) -> Self::Result {
            assert!(!matches!(how, How::Panic), "on purpose");
            let work = async move {
                tokio::task::yield_now().await;
                match how {
                    How::Error => Err("on purpose"),
                    How::LatePanic => panic!("on purpose"),
                    _ => Ok(()),
                }
            };
            AtomicResponse::new(Box::pin(work.into_actor(self)))
        }
    }

    impl Handler<Note> for Failing {
        type Result = ();

        fn handle(&mut self, Note(how): Note, _: &mut MeteredContext<Self>) {
            assert!(!matches!(how, How::Panic), "on purpose");
        }
    }

    #[actix::test]
    async fn what_fails_is_counted_and_a_mailbox_is_that_of_all_kinds() {
        let arbiter = actix_rt::Arbiter::current();
        let addr = MeteredContext::start(&arbiter, 16, OnPanic::Restart, |_| Failing);
        let (well, error, panic, late, noted, note) = tokio::join!(
            addr.send(Do(How::Well)),
            addr.send(Do(How::Error)),
            addr.send(Do(How::Panic)),
            addr.send(Do(How::LatePanic)),
            addr.send(Note(How::Well)),
            addr.send(Note(How::Panic)),
        );
        assert!(matches!(well, Ok(Ok(()))) && noted.is_ok());
        assert!(matches!(error, Ok(Err("on purpose"))));
        assert!(panic.is_err() && late.is_err() && note.is_err());
        let meter = Failing::meter();
        let errors = |kind: &str| {
            let readings = meter.readings().into_iter();
            let mut of_kind = readings.filter(|reading| reading.message == kind);
            of_kind.next().map(|reading| reading.errors)
        };
        // An error, a panic in the handler, and a panic in its future.
        assert_eq!((errors("Do"), errors("Note")), (Some(3), Some(1)));
        assert_eq!(meter.restarts(), 3);
        let highest = meter.readings().iter().map(|of| of.depth_max).max();
        let mailbox = meter.mailbox();
        assert_eq!((mailbox.now, mailbox.highest, highest), (0, 6, Some(4)));
    }
}
