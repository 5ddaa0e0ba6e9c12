//! The order of a bridge's messages: those of one call run one after the other, different calls run concurrently. A
//! function or a turn is started in its turn and then delays nothing, neither its call nor its bridge's other messages.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Instant,
};

use dikala_actors::{
    calls::{CallError, CallInput, CallReply, CallRouter, InvokeFunction, TellTurn, TenantHint},
    traces::arrived,
};
use dikala_entities::{BridgeId, CallId, Millis};
use dikala_protocol::{
    BridgeMessage, CallMessage, CallReport, ErrorCode, FunctionInvocation, Heartbeat,
    MessageContent, MessageType, NumberedTurn, ReplyError,
};
use futures_util::{
    FutureExt, StreamExt,
    future::{Either, LocalBoxFuture, ready},
    stream::FuturesUnordered,
};
use serde_json::Value;

use super::{
    BridgeContext, DraftReader,
    budget::{ConnectionBudget, MessageReservation, RING_WITHIN, ROOM_WITHIN},
    protocol::{self, MessageRefusal, QueueKey, Success, reply_error},
    ticket::Ticket,
};

/// A message as it was read. A refusal is answered in its turn too.
pub type ParsedMessage = Result<BridgeMessage, MessageRefusal>;

/// A message with its ticket and its room.
type QueuedMessage = (Ticket, ParsedMessage, MessageReservation);

/// An answered message.
#[derive(Debug)]
pub struct AnsweredMessage {
    /// The ticket of the message.
    pub ticket: Ticket,
    pub reply: Value,
    /// Held until the reply is written.
    pub room: MessageReservation,
    /// The call that an incoming call became.
    opened: Option<CallId>,
    /// The code of an error reply.
    refusal: Option<ErrorCode>,
}

/// Carries out the messages of one connection.
pub struct OrderingQueues {
    connection: Rc<BridgeConnection>,
    waiting: HashMap<QueueKey, VecDeque<QueuedMessage>>,
    running: FuturesUnordered<LocalBoxFuture<'static, (Option<QueueKey>, AnsweredMessage)>>,
}

/// The connection whose messages are carried out.
struct BridgeConnection {
    calls: CallRouter,
    drafts: DraftReader,
    share: ConnectionBudget,
    bridge: BridgeId,
}

impl OrderingQueues {
    pub fn new(context: &BridgeContext, share: ConnectionBudget, bridge: BridgeId) -> Self {
        let connection = BridgeConnection {
            calls: context.runtime.calls.clone(),
            drafts: context.drafts.clone(),
            share,
            bridge,
        };
        Self {
            connection: Rc::new(connection),
            waiting: HashMap::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// True if every message is answered.
    pub fn is_idle(&self) -> bool {
        // A waiting message always has a running one ahead of it in its queue.
        self.running.is_empty()
    }

    /// Accepts a message with its room.
    pub fn accept(&mut self, ticket: Ticket, message: ParsedMessage, room: MessageReservation) {
        let Some(key) = queue_key(&message) else {
            return self.run(None, (ticket, message, room));
        };
        match self.waiting.get_mut(&key) {
            // An entry means that a message of that call is running.
            Some(queue) => queue.push_back((ticket, message, room)),
            None => self.start(key, (ticket, message, room)),
        }
    }

    /// The next answer, in the order of completion.
    pub async fn next(&mut self) -> Option<AnsweredMessage> {
        let (key, finished) = self.running.next().await?;
        if let Some(key) = key {
            self.go_on(key);
        }
        Some(finished)
    }

    fn start(&mut self, key: QueueKey, numbered: QueuedMessage) {
        if is_concurrent(&numbered.1) {
            self.run(None, numbered);
        } else {
            self.waiting.entry(key.clone()).or_default();
            self.run(Some(key), numbered);
        }
    }

    /// A message of the queue is answered: starts the functions next in line, and one other message.
    fn go_on(&mut self, key: QueueKey) {
        while let Some(numbered) = self.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
            if is_concurrent(&numbered.1) {
                self.run(None, numbered);
            } else {
                return self.run(Some(key), numbered);
            }
        }
        self.waiting.remove(&key);
    }

    /// Carries out a message, or answers its refusal.
    fn run(&self, key: Option<QueueKey>, (ticket, message, room): QueuedMessage) {
        let told = message
            .as_ref()
            .ok()
            .map(|message| (message.content.kind(), call_of(&message.content)));
        let answered = match message {
            Ok(message) => {
                let connection = Rc::clone(&self.connection);
                Either::Left(answer(connection, ticket, message, room))
            }
            Err(refusal) => Either::Right(ready(AnsweredMessage {
                ticket,
                reply: refusal.to_json(),
                room,
                opened: None,
                refusal: Some(refusal.code()),
            })),
        };
        let connection = Rc::clone(&self.connection);
        let finished = answered.map(move |finished| {
            if let Some((kind, call)) = told {
                record(&connection.calls, kind, call, &finished);
            }
            (key, finished)
        });
        self.running.push(Box::pin(finished));
    }
}

async fn answer(
    connection: Rc<BridgeConnection>,
    ticket: Ticket,
    BridgeMessage { id, content }: BridgeMessage,
    room: MessageReservation,
) -> AnsweredMessage {
    let since = ticket.read_at();
    let (done, room) = carry_out(&connection, &id, content, since, room).await;
    let opened = done.as_ref().ok().and_then(opened);
    let (reply, refusal) = match done {
        Ok(success) => (protocol::reply(&id, success), None),
        Err(error) => {
            let refusal = MessageRefusal::from((id, error));
            (refusal.to_json(), Some(refusal.code()))
        }
    };
    AnsweredMessage {
        ticket,
        reply,
        room,
        opened,
        refusal,
    }
}

/// Keeps an answered message for operators. Turns are many, and each is an event of its own. A call that the bridge made up leaves
/// nothing.
fn record(calls: &CallRouter, kind: MessageType, call: Option<CallId>, answered: &AnsweredMessage) {
    let is_kept = kind != MessageType::Turn && answered.refusal != Some(ErrorCode::UnknownCall);
    if let Some(call) = call.or(answered.opened).filter(|_| is_kept) {
        calls.record(call, kind, answered.ticket.read_at(), answered.refusal);
    }
}

/// The call that a message is about, if it names one.
const fn call_of(content: &MessageContent) -> Option<CallId> {
    match content {
        MessageContent::Call(message) => Some(message.call),
        MessageContent::Incoming(_) | MessageContent::Heartbeat(_) => None,
    }
}

/// The call that an incoming call became.
const fn opened(success: &Success) -> Option<CallId> {
    match success {
        Success::Call(CallReply::Admitted { call, .. } | CallReply::Refused { call, .. }) => {
            Some(*call)
        }
        _ => None,
    }
}

/// The tenant that an incoming call is charged to, for fair sharing.
pub fn payer(calls: &CallRouter, request: &BridgeMessage) -> TenantHint {
    match &request.content {
        MessageContent::Incoming(incoming) => calls.tenant_of_called(&incoming.called),
        _ => None,
    }
}

/// No other message waits for it: a function may take long, and a turn up to a second.
fn is_concurrent(message: &ParsedMessage) -> bool {
    let kind = message.as_ref().map(|message| message.content.kind());
    matches!(kind, Ok(MessageType::Function | MessageType::Turn))
}

fn queue_key(message: &ParsedMessage) -> Option<QueueKey> {
    match message {
        Ok(message) => QueueKey::of(message),
        Err(refusal) => refusal.queue_key.clone(),
    }
}

/// Carries out a message. Returns the answer and the room for its reply.
///
/// The inner futures are boxed: thousands of messages wait for a permit at once, and unboxed each would reserve their
/// size.
async fn carry_out(
    connection: &BridgeConnection,
    id: &str,
    content: MessageContent,
    since: Instant,
    mut room: MessageReservation,
) -> (Result<Success, ReplyError>, MessageReservation) {
    let BridgeConnection { calls, share, .. } = connection;
    let bridge = connection.bridge;
    let answer = match content {
        MessageContent::Incoming(mut incoming) => {
            let payer = calls.tenant_of_called(&incoming.called);
            match share.ring_turn(payer, &mut room, RING_WITHIN).await {
                Err(error) => Err(error),
                Ok(_turn) => {
                    let drafts = &connection.drafts;
                    let draft = match Box::pin(drafts.take(bridge, &mut incoming)).await {
                        Ok(draft) => draft,
                        Err(error) => return (Err(error), room),
                    };
                    Box::pin(arrived(since, calls.incoming(bridge, incoming, draft)))
                        .await
                        .map(Success::Call)
                }
            }
        }
        MessageContent::Call(CallMessage { call, at, report }) => {
            let input = match input(report, at, id) {
                Ok(input) => input,
                Err(ConcurrentReport::Function(function)) => {
                    let message = invocation(bridge, function, at, since);
                    let (done, room) = Box::pin(invoke(calls, share, call, message, room)).await;
                    return (done.map_err(reply_error), room);
                }
                Err(ConcurrentReport::Turn(turn)) => {
                    let told = calls.tell_turn(call, TellTurn { bridge, turn });
                    let done = Box::pin(told).await.map(Success::Call);
                    return (done.map_err(reply_error), room);
                }
            };
            let _turn = share.turn(calls.tenant_of_call(call)).await;
            let told = calls.tell(Some(bridge), call, input);
            Box::pin(arrived(since, told)).await.map(Success::Call)
        }
        MessageContent::Heartbeat(Heartbeat { active, at }) => {
            let ended = match active {
                _ if !calls.seen(bridge) => Err(CallError::Unavailable),
                None => Ok(Vec::new()),
                Some(active) => {
                    let _turn = share.list_turn().await;
                    Box::pin(calls.heartbeat(bridge, &active, at)).await
                }
            };
            ended.map(|ended| Success::Heartbeat { ended })
        }
    };
    (answer.map_err(reply_error), room)
}

/// A report that no other message waits for.
enum ConcurrentReport {
    Function(FunctionInvocation),
    Turn(NumberedTurn),
}

/// A report as a call takes it, unless it is concurrent.
fn input(report: CallReport, at: Option<Millis>, id: &str) -> Result<CallInput, ConcurrentReport> {
    Ok(match report {
        CallReport::Function(function) => return Err(ConcurrentReport::Function(function)),
        CallReport::Turn { turn } => return Err(ConcurrentReport::Turn(turn)),
        CallReport::Answered => CallInput::Answered {
            at,
            message_id: id.to_owned(),
        },
        CallReport::Transferred { ai_cost_idr, .. } => CallInput::Joined {
            at,
            ai_cost_idr: signed(ai_cost_idr),
        },
        CallReport::Transcript { summary, turns } => CallInput::Transcript { at, summary, turns },
        CallReport::Hangup {
            reason,
            initiator,
            ai_cost_idr,
            voice,
        } => CallInput::HangUp {
            at,
            reason,
            initiator,
            ai_cost_idr: signed(ai_cost_idr),
            voice,
        },
        CallReport::Failed {
            reason,
            detail,
            ai_cost_idr,
            voice,
        } => CallInput::Failed {
            at,
            reason,
            detail,
            ai_cost_idr: signed(ai_cost_idr),
            voice,
        },
    })
}

fn invocation(
    bridge: BridgeId,
    function: FunctionInvocation,
    at: Option<Millis>,
    since: Instant,
) -> InvokeFunction {
    InvokeFunction {
        bridge,
        invocation_id: function.invocation_id,
        name: function.name,
        parameters: function.parameters,
        at,
        trace: function.trace,
        since,
    }
}

/// Calls the function's endpoint; meanwhile the message holds no room. A result without room is stored, and the
/// bridge gets it when it repeats the message.
async fn invoke(
    calls: &CallRouter,
    share: &ConnectionBudget,
    call: CallId,
    message: InvokeFunction,
    room: MessageReservation,
) -> (Result<Success, CallError>, MessageReservation) {
    let aside = match share.step_aside(room) {
        Ok(aside) => aside,
        Err(room) => return (Err(CallError::Busy), room),
    };
    let outcome = calls.invoke(call, message).await;
    let room = share.room_for_result(ROOM_WITHIN).await;
    drop(aside);
    match room {
        Ok(room) => (outcome.map(Success::FunctionCall), room),
        Err(room) => (Err(CallError::Busy), room),
    }
}

/// A cost in the type of the database.
fn signed(cost: Option<u64>) -> Option<i64> {
    cost.and_then(|cost| cost.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of a waiting message's future, besides its own texts.
    const WAITING_BYTES_MAX: usize = 2_048;

    fn size_of_answer<F>(
        _: impl Fn(Rc<BridgeConnection>, Ticket, BridgeMessage, MessageReservation) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_message_that_waits_has_no_room_for_what_is_done_in_its_turn() {
        let bytes = size_of_answer(answer);
        assert!(bytes <= WAITING_BYTES_MAX, "{bytes}");
    }
}
