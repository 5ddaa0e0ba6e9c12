//! The context of every actor: it counts and times messages and restarts the actor after a panic.
//!
//! actix's supervisor restarts an actor that stopped, not one that panicked, and its context does not show the queue.
//! [`MeteredContext`] replaces `actix::Context` without a change to handlers. It wraps each message's envelope, which
//! reports to the actor's [meter](ActorMeter), and polls the actor under `catch_unwind`. Measured cost: about half a
//! microsecond a message.
//! message.

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Instant,
};

use actix::{
    Actor, ActorContext, ActorState, Addr, AsyncContext, Handler, Message, SpawnHandle, Supervised,
    dev::{
        AsyncContextParts, ContextFut, ContextParts, Envelope, EnvelopeProxy, Mailbox,
        MessageResponse, ToEnvelope,
        channel::{AddressReceiver, channel},
    },
    fut::{ActorFuture, ActorFutureExt, wrap_future},
};
use actix_rt::ArbiterHandle;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    answer::{MessageReply, watched},
    instances::InstanceMeter,
    metrics::{ActorMeter, MessageMeter},
};

/// An actor that runs in a [`MeteredContext`]. Implement it with [`metered!`](crate::metered).
pub trait Metered: Actor<Context = MeteredContext<Self>> + Supervised {
    /// The meter of this type of actor.
    fn meter() -> &'static ActorMeter;

    /// Makes the actor available to fault injection.
    #[cfg(debug_assertions)]
    fn register_fail_points(actor: &Addr<Self>);

    /// The instance's name; without one it has a number.
    fn label(&self) -> Option<String> {
        None
    }
}

/// Gives a type of actor its meter and an answer to [`Ping`]: `metered!(CreditLedger, "credit_ledger");` An
/// expression for the instance's name may come third: `metered!(CallActor, "call", |call| call.id.to_string());`
#[macro_export]
macro_rules! metered {
    ($actor:ty, $name:literal $(, |$it:ident| $label:expr)?) => {
        impl $crate::runtime::context::Metered for $actor {
            fn meter() -> &'static $crate::runtime::metrics::ActorMeter {
                static METER: $crate::runtime::metrics::ActorMeter =
                    $crate::runtime::metrics::ActorMeter::new($name);
                &METER
            }

            #[cfg(debug_assertions)]
            fn register_fail_points(actor: &::actix::Addr<Self>) {
                $crate::runtime::fail_points::register($name, actor.clone().recipient());
            }

            $(
                fn label(&self) -> Option<String> {
                    let $it = self;
                    Some($label)
                }
            )?
        }

        #[cfg(debug_assertions)]
        impl ::actix::Handler<$crate::runtime::fail_points::Fail> for $actor {
            type Result = ();

            fn handle(
                &mut self,
                fail: $crate::runtime::fail_points::Fail,
                ctx: &mut $crate::runtime::context::MeteredContext<Self>,
            ) {
                $crate::runtime::fail_points::act::<Self>(fail, ctx);
            }
        }

        impl ::actix::Handler<$crate::runtime::context::Ping> for $actor {
            type Result = ();

            fn handle(
                &mut self,
                _: $crate::runtime::context::Ping,
                _: &mut $crate::runtime::context::MeteredContext<Self>,
            ) {
            }
        }
    };
}

/// Checks that an actor still handles messages. Every metered actor answers.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Ping;

/// The treatment of an actor that panicked.
pub enum OnPanic {
    /// It restarts in place: `Supervised::restarting`, then `started`; address and queue stay.
    Restart,
    /// It is dropped, and this function is called.
    GiveUp(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for OnPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Restart => "Restart",
            Self::GiveUp(_) => "GiveUp(…)",
        })
    }
}

/// The context of a [`Metered`] actor.
pub struct MeteredContext<A: Metered> {
    parts: ContextParts<A>,
    mailbox: Option<Mailbox<A>>,
    instance: Option<Arc<InstanceMeter>>,
}

impl<A: Metered> fmt::Debug for MeteredContext<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredContext")
            .field("parts", &self.parts)
            .finish()
    }
}

impl<A: Metered> MeteredContext<A> {
    /// Starts an actor on an arbiter. The address works at once; the mailbox holds `mailbox` messages, and further
    /// senders wait.
    pub fn start<F>(arbiter: &ArbiterHandle, mailbox: usize, on_panic: OnPanic, make: F) -> Addr<A>
    where
        F: FnOnce(&mut Self) -> A + Send + 'static,
    {
        A::meter().register(mailbox);
        let (sender, receiver) = channel(mailbox);
        // If the arbiter is gone, the receiver is dropped and senders see a closed mailbox.
        let _ = arbiter.spawn_fn(move || {
            let mut ctx = Self::with_receiver(receiver);
            let actor = make(&mut ctx);
            let mailbox = ctx.mailbox.take().expect("a context is run once");
            let instance = Arc::new(InstanceMeter::new(actor.label(), A::meter().number()));
            ctx.instance = Some(Arc::clone(&instance));
            A::meter().started(&instance);
            actix_rt::spawn(SupervisedFuture {
                future: Some(ContextFut::new(ctx, actor, mailbox)),
                on_panic,
                instance,
            });
        });
        let addr = Addr::new(sender);
        #[cfg(debug_assertions)]
        A::register_fail_points(&addr);
        addr
    }

    /// Runs `work` as its own task, then `then` in the actor. The task ends with the actor or when its handle is
    /// cancelled.
    ///
    /// It is no future of this context, because those are not polled while the actor waits for another. A future that
    /// queues for a connection would receive it and block everything, including its own actor. So
    /// `AsyncContext::spawn` is forbidden (`clippy.toml`).
    pub fn task<F>(
        &mut self,
        work: F,
        then: impl FnOnce(F::Output, &mut A, &mut Self) + 'static,
    ) -> SpawnHandle
    where
        F: Future + 'static,
    {
        let task = OwnTask(actix_rt::spawn(work));
        let done = wrap_future::<_, A>(task).map(|done, actor, ctx| then(done, actor, ctx));
        self.parts.spawn(done)
    }

    fn with_receiver(receiver: AddressReceiver<A>) -> Self {
        let mailbox = Mailbox::new(receiver);
        Self {
            parts: ContextParts::new(mailbox.sender_producer()),
            mailbox: Some(mailbox),
            instance: None,
        }
    }
}

impl<A: Metered> ActorContext for MeteredContext<A> {
    fn stop(&mut self) {
        self.parts.stop();
    }

    fn terminate(&mut self) {
        self.parts.terminate();
    }

    fn state(&self) -> ActorState {
        self.parts.state()
    }
}

impl<A: Metered> AsyncContext<A> for MeteredContext<A> {
    fn address(&self) -> Addr<A> {
        self.parts.address()
    }

    fn spawn<F>(&mut self, future: F) -> SpawnHandle
    where
        F: ActorFuture<A, Output = ()> + 'static,
    {
        self.parts.spawn(future)
    }

    fn wait<F>(&mut self, future: F)
    where
        F: ActorFuture<A, Output = ()> + 'static,
    {
        let waiting = self.instance.as_ref().map(InstanceMeter::waits);
        self.parts.wait(future.map(move |(), _, _| drop(waiting)));
    }

    fn waiting(&self) -> bool {
        self.parts.waiting()
    }

    fn cancel_future(&mut self, handle: SpawnHandle) -> bool {
        self.parts.cancel_future(handle)
    }
}

impl<A: Metered> AsyncContextParts<A> for MeteredContext<A> {
    fn parts(&mut self) -> &mut ContextParts<A> {
        &mut self.parts
    }
}

impl<A, M> ToEnvelope<A, M> for MeteredContext<A>
where
    A: Metered + Handler<M>,
    M: Message + Send + 'static,
    M::Result: MessageReply,
{
    fn pack(message: M, reply: Option<oneshot::Sender<M::Result>>) -> Envelope<A> {
        let meter = A::meter().message::<M>();
        meter.sent();
        Envelope::with_proxy(Box::new(CountedEnvelope {
            content: Some((message, reply)),
            sent: Instant::now(),
            meter,
        }))
    }
}

/// A message in transit. It knows when it was sent and notices when it is dropped, unhandled or by a handler that
/// panics.
struct CountedEnvelope<M: Message> {
    content: Option<(M, Option<oneshot::Sender<M::Result>>)>,
    sent: Instant,
    meter: &'static MessageMeter,
}

impl<A, M> EnvelopeProxy<A> for CountedEnvelope<M>
where
    A: Metered + Handler<M>,
    M: Message + Send + 'static,
    M::Result: MessageReply,
{
    fn handle(&mut self, actor: &mut A, ctx: &mut MeteredContext<A>) {
        // If the sender no longer waits, the message is dropped unhandled: `Drop` counts it as lost.
        let abandoned = matches!(&self.content, Some((_, Some(reply))) if reply.is_closed());
        if abandoned {
            return;
        }
        if let Some((message, reply)) = self.content.take() {
            let began = Instant::now();
            self.meter.taken(self.sent, began);
            let instance = ctx.instance.clone().filter(|_| !self.meter.is_look());
            if let Some(instance) = &instance {
                instance.begins(self.meter.number(), began);
            }
            let response = <A as Handler<M>>::handle(actor, message, ctx);
            response.handle(ctx, watched(self.meter, reply));
            let took = began.elapsed();
            self.meter.handled(took);
            if let Some(instance) = &instance {
                instance.handled(took);
            }
        }
    }
}

impl<M: Message> Drop for CountedEnvelope<M> {
    fn drop(&mut self) {
        if self.content.is_some() {
            self.meter.taken(self.sent, Instant::now());
            self.meter.lost();
        } else if std::thread::panicking() {
            self.meter.failed();
        }
    }
}

/// A task that is aborted when dropped. Its panic reaches the future that waits for it.
struct OwnTask<T>(JoinHandle<T>);

impl<T> Future for OwnTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<T> {
        match Pin::new(&mut self.0).poll(task) {
            Poll::Ready(Ok(done)) => Poll::Ready(done),
            Poll::Ready(Err(error)) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The thread ends, and the actor with it.
                Err(_) => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for OwnTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Polls an actor and survives its panics.
struct SupervisedFuture<A: Metered> {
    future: Option<ContextFut<A, MeteredContext<A>>>,
    on_panic: OnPanic,
    instance: Arc<InstanceMeter>,
}

impl<A: Metered> SupervisedFuture<A> {
    fn after_panic(&mut self, task: &TaskContext<'_>) -> Poll<()> {
        A::meter().panicked();
        self.instance.idle();
        tracing::error!(actor = A::meter().name(), "an actor panicked");
        match std::mem::replace(&mut self.on_panic, OnPanic::Restart) {
            OnPanic::Restart => {
                let restarted = self.future.as_mut().is_some_and(ContextFut::restart);
                if restarted {
                    task.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            }
            OnPanic::GiveUp(call) => {
                // The context polls itself once more when dropped and may panic again.
                let future = self.future.take();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                call();
                Poll::Ready(())
            }
        }
    }
}

// Nothing in it is pinned: the context's future is `Unpin`.
impl<A: Metered> Unpin for SupervisedFuture<A> {}

impl<A: Metered> Future for SupervisedFuture<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<()> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(());
        };
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(task)));
        polled.unwrap_or_else(|_| self.after_panic(task))
    }
}

impl<A: Metered> Drop for SupervisedFuture<A> {
    fn drop(&mut self) {
        A::meter().stopped(&self.instance);
    }
}

#[cfg(test)]
mod tests;
