//! The actor of one call: a mailbox, a timer and the [`CallDriver`], which one message at a time takes.

use std::{collections::HashMap, sync::Arc};

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, AtomicResponse, Handler,
    MessageResult, ResponseFuture, SpawnHandle, Supervised, WrapFuture,
};
use dikala_entities::{BridgeId, CallId, call};
use dikala_protocol::IncomingCall;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    deps::CallDeps,
    driver::CallDriver,
    error::CallError,
    invoke::{InvocationResult, invoke},
    look_up::Callee,
    messages::{CallInput, CallReply, Describe, InvokeFunction, LetGo, Tell, TellTurn},
    open::open,
    spans,
    turns::WaitingTurns,
};
use crate::{
    metered,
    runtime::context::MeteredContext,
    traces::{self, MessageArrival, Span},
};

/// Time that a call stays in memory after its end, for late and repeated messages.
const LINGER_MS: i64 = 10_000;
/// Concurrent function invocations of a call.
const INVOCATIONS_MAX: usize = 32;
/// Repeats of one invocation that may wait for its outcome.
const REPEATS_MAX: usize = 8;

type InvocationReply = Result<Value, CallError>;

/// The start of an actor. It happens even if the caller is cancelled; messages wait until then.
#[derive(Debug)]
pub(super) enum ActorStart {
    /// A new call from this message; the result goes to the sender.
    Open(
        Box<IncomingCall>,
        Box<Callee>,
        MessageArrival,
        oneshot::Sender<Result<CallReply, CallError>>,
    ),
    /// A call read from the store.
    Loaded(Box<CallDriver>),
}

type Opened = Box<dyn Fn(&call::Model) + Send>;
type Stopped = Box<dyn Fn(&Addr<CallActor>) + Send>;

/// Callbacks to the router.
pub(super) struct Hooks {
    /// The call was opened with this row.
    pub(super) opened: Opened,
    /// The actor with this address stopped.
    pub(super) stopped: Stopped,
}

pub(super) struct CallActor {
    id: CallId,
    bridge: BridgeId,
    deps: Arc<CallDeps>,
    hooks: Hooks,
    /// Taken by `started`.
    beginning: Option<ActorStart>,
    /// `None` while a message has it, and for a call that could not be opened.
    driver: Option<CallDriver>,
    timer: Option<SpawnHandle>,
    lingering: bool,
    /// Invocations that run or are not written yet, with the callers that wait for the outcome.
    invocations: HashMap<String, Vec<oneshot::Sender<InvocationReply>>>,
    turns: WaitingTurns,
}

metered!(CallActor, "call", |call| call.id.to_string());

impl std::fmt::Debug for CallActor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallActor")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl CallActor {
    pub(super) fn new(
        deps: Arc<CallDeps>,
        hooks: Hooks,
        id: CallId,
        bridge: BridgeId,
        beginning: ActorStart,
    ) -> Self {
        Self {
            id,
            bridge,
            deps,
            hooks,
            beginning: Some(beginning),
            driver: None,
            timer: None,
            lingering: false,
            invocations: HashMap::new(),
            turns: WaitingTurns::default(),
        }
    }

    /// Takes the driver back after a message: sets the timer for the next deadline, or prepares to stop.
    fn settle(&mut self, driver: Option<CallDriver>, ctx: &mut MeteredContext<Self>) {
        self.driver = driver;
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        let Some(driver) = &self.driver else {
            return ctx.stop();
        };
        if driver.is_done() {
            self.linger(ctx);
        } else if let Some(at) = driver.next_deadline() {
            let sleep = self.deps.clock.sleep_until(at);
            self.timer = Some(ctx.task(sleep, |(), this, ctx| {
                this.timer = None;
                this.look_at_the_clock(ctx);
            }));
        }
    }

    fn open(
        &mut self,
        mut incoming: IncomingCall,
        callee: Callee,
        arrival: MessageArrival,
        reply: oneshot::Sender<Result<CallReply, CallError>>,
        ctx: &mut MeteredContext<Self>,
    ) {
        let traces = &self.deps.traces;
        incoming.trace = incoming.trace.or_else(|| traces.begin_call(self.id));
        let call = traces.call(self.id, incoming.trace.as_ref());
        let span = spans::of_input(
            call.as_ref(),
            Some(self.bridge),
            &CallInput::Reopen,
            arrival.at,
        );
        let work = open(
            Arc::clone(&self.deps),
            self.id,
            self.bridge,
            incoming,
            callee,
        );
        let work = traces::within(span.as_ref().map(Span::context), work);
        let work = traces::for_request(arrival.request, work);
        ctx.wait(work.into_actor(self).map(|opened, this, ctx| {
            let (driver, opened) = match opened {
                Ok((driver, reply)) => (Some(driver), Ok(reply)),
                Err(error) => (None, Err(error)),
            };
            spans::end_message(span, &opened);
            if let Some(driver) = &driver {
                (this.hooks.opened)(driver.row());
            }
            // The caller may be gone; the bridge repeats its message.
            let _ = reply.send(opened);
            this.settle(driver, ctx);
        }));
    }

    fn look_at_the_clock(&mut self, ctx: &mut MeteredContext<Self>) {
        let Some(mut driver) = self.driver.take() else {
            return;
        };
        let call = spans::of_call(&self.deps, driver.row());
        let work = traces::within(call, async move {
            driver.run_due().await;
            driver
        });
        ctx.wait(
            work.into_actor(self)
                .map(|driver, this, ctx| this.settle(Some(driver), ctx)),
        );
    }

    /// Answers the waiting callers. An unwritten outcome stays, so a repeat waits for the next write and does not call the
    /// endpoint.
    fn invoked(
        &mut self,
        invocation: String,
        invoked: InvocationResult,
        ctx: &mut MeteredContext<Self>,
    ) {
        let waiting = self.invocations.remove(&invocation).unwrap_or_default();
        let outcome = match invoked {
            InvocationResult::Answered(outcome) => outcome,
            InvocationResult::Unwritten(error, unwritten) => {
                self.invocations.insert(invocation.clone(), Vec::new());
                let deps = Arc::clone(&self.deps);
                let again = async move { unwritten.again(&deps).await };
                ctx.task(again, |invoked, this, ctx| {
                    this.invoked(invocation, invoked, ctx)
                });
                Err(error)
            }
        };
        let has_moved = outcome == Err(CallError::Moved);
        for reply in waiting {
            let _ = reply.send(outcome.clone());
        }
        if let Some(mut driver) = self.driver.take_if(|_| has_moved) {
            driver.disown();
            self.settle(Some(driver), ctx);
        }
    }

    /// Commits the turns that wait, and answers those who wait for that.
    fn commit_turns(&mut self, ctx: &mut MeteredContext<Self>) {
        let (turns, replies) = self.turns.take(self.deps.clock.now());
        let Some(mut driver) = self.driver.take() else {
            // Whoever waits finds the call's next actor.
            return;
        };
        let call = spans::of_call(&self.deps, driver.row());
        let work = traces::within(call, async move {
            let done = driver.announce(turns).await;
            (driver, done)
        });
        ctx.wait(work.into_actor(self).map(|(driver, done), this, ctx| {
            for reply in replies {
                let _ = reply.send(done.clone());
            }
            this.settle(Some(driver), ctx);
        }));
    }

    fn linger(&mut self, ctx: &mut MeteredContext<Self>) {
        if self.lingering {
            return;
        }
        self.lingering = true;
        let until = self.deps.clock.now().plus_ms(LINGER_MS);
        let sleep = self.deps.clock.sleep_until(until);
        ctx.task(sleep, |(), this, ctx| {
            this.lingering = false;
            if this.invocations.is_empty() && this.turns.is_empty() {
                ctx.stop()
            } else {
                this.linger(ctx)
            }
        });
    }
}

impl Actor for CallActor {
    type Context = MeteredContext<Self>;

    fn started(&mut self, ctx: &mut MeteredContext<Self>) {
        match self.beginning.take() {
            Some(ActorStart::Open(incoming, callee, arrival, reply)) => {
                self.open(*incoming, *callee, arrival, reply, ctx);
            }
            Some(ActorStart::Loaded(driver)) => {
                self.driver = Some(*driver);
                self.look_at_the_clock(ctx);
            }
            None => {}
        }
    }

    fn stopped(&mut self, ctx: &mut MeteredContext<Self>) {
        (self.hooks.stopped)(&ctx.address());
    }
}

// After a panic the call is read again from the store, not restarted in place.
impl Supervised for CallActor {}

impl Handler<Tell> for CallActor {
    type Result = AtomicResponse<Self, Result<CallReply, CallError>>;

    fn handle(
        &mut self,
        Tell {
            bridge,
            input,
            arrival,
        }: Tell,
        _: &mut MeteredContext<Self>,
    ) -> Self::Result {
        let driver = self.driver.take();
        let row = driver.as_ref().map(CallDriver::row);
        let call = row.and_then(|row| spans::of_call(&self.deps, row));
        let span = spans::of_input(call.as_ref(), bridge, &input, arrival.at);
        let work = traces::for_request(arrival.request, async move {
            let Some(mut driver) = driver else {
                return (None, Err(CallError::Unavailable));
            };
            let context = span.as_ref().map(Span::context).or(call);
            let reply = traces::within(context, driver.handle(bridge, input)).await;
            if let Err(error @ (CallError::Unavailable | CallError::Busy)) = &reply {
                let request_id = traces::request_id();
                tracing::warn!(call = %driver.row().id, request_id = request_id.as_deref(), %error, "a message about a call was not carried out");
            }
            spans::end_message(span, &reply);
            (Some(driver), reply)
        });
        AtomicResponse::new(Box::pin(work.into_actor(self).map(
            |(driver, reply), this, ctx| {
                this.settle(driver, ctx);
                reply
            },
        )))
    }
}

impl Handler<Describe> for CallActor {
    type Result = MessageResult<Describe>;

    fn handle(&mut self, _: Describe, _: &mut MeteredContext<Self>) -> Self::Result {
        MessageResult(self.driver.as_ref().map(CallDriver::describe))
    }
}

impl Handler<LetGo> for CallActor {
    type Result = ();

    fn handle(&mut self, _: LetGo, ctx: &mut MeteredContext<Self>) {
        if let Some(mut driver) = self.driver.take() {
            driver.disown();
            self.settle(Some(driver), ctx);
        }
    }
}

impl Handler<InvokeFunction> for CallActor {
    type Result = ResponseFuture<InvocationReply>;

    fn handle(&mut self, message: InvokeFunction, ctx: &mut MeteredContext<Self>) -> Self::Result {
        let refuse = |error| -> Self::Result { Box::pin(async move { Err(error) }) };
        let Some(driver) = &mut self.driver else {
            return refuse(CallError::Unavailable);
        };
        if message.bridge != self.bridge {
            return refuse(CallError::UnknownCall);
        }
        if driver.has_moved() {
            return refuse(CallError::Moved);
        }
        driver.seen();
        let (reply, outcome) = oneshot::channel();
        let wait = Box::pin(async move { outcome.await.unwrap_or(Err(CallError::Unavailable)) });
        let running = self.invocations.len();
        if let Some(waiting) = self.invocations.get_mut(&message.invocation_id) {
            if waiting.len() >= REPEATS_MAX {
                return refuse(CallError::Busy);
            }
            waiting.push(reply);
            return wait;
        }
        if running >= INVOCATIONS_MAX {
            return refuse(CallError::Busy);
        }
        let invocation = message.invocation_id.clone();
        self.invocations.insert(invocation.clone(), vec![reply]);
        let span = spans::of_invocation(&self.deps, driver.row(), &message);
        let work = invoke(Arc::clone(&self.deps), driver.row().clone(), message);
        let work = async move {
            let invoked = traces::within(span.as_ref().map(Span::context), work).await;
            spans::end_invocation(span, &invoked);
            invoked
        };
        ctx.task(work, |invoked, this, ctx| {
            this.invoked(invocation, invoked, ctx)
        });
        wait
    }
}

impl Handler<TellTurn> for CallActor {
    type Result = ResponseFuture<Result<CallReply, CallError>>;

    fn handle(&mut self, message: TellTurn, ctx: &mut MeteredContext<Self>) -> Self::Result {
        let refuse = |error| -> Self::Result { Box::pin(async move { Err(error) }) };
        let Some(driver) = &mut self.driver else {
            return refuse(CallError::Unavailable);
        };
        if message.bridge != self.bridge {
            return refuse(CallError::UnknownCall);
        }
        if driver.has_moved() {
            return refuse(CallError::Moved);
        }
        driver.seen();
        let (reply, outcome) = oneshot::channel();
        match self.turns.add(message.turn, reply, self.deps.clock.now()) {
            Err(_) => return refuse(CallError::Busy),
            Ok(None) => {}
            Ok(Some(at)) => {
                let sleep = self.deps.clock.sleep_until(at);
                ctx.task(sleep, |(), this, ctx| this.commit_turns(ctx));
            }
        }
        Box::pin(async move { outcome.await.unwrap_or(Err(CallError::Unavailable)) })
    }
}

/// Makes the actor panic.
#[cfg(test)]
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub(crate) struct Panic;

#[cfg(test)]
impl Handler<Panic> for CallActor {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut MeteredContext<Self>) {
        panic!("on purpose");
    }
}
