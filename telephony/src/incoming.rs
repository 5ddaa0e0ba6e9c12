//! Calls on their way to a task: those that a trunk offers, and those from browsers.

use dikala_entities::{AgentId, CallerNumber, ChannelKind, Millis, PhoneError, PhoneNumber};
use dikala_protocol::{
    CalledParty, IncomingCall,
    client::{OpenedCall, ServiceClient, WallClock},
};
use dikala_sip::leg::{Leg, OfferedCall, OfferedChannel, Order};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    call::{self, CallNote, CallOrigin, TaskDeps, unavailable},
    early_voices::EarlyVoices,
};

/// The place of calls from browsers among those of trunks.
const WEB: &str = "web";

/// A call from a browser, which calls an agent and no number.
#[derive(Debug)]
pub struct WebCall {
    /// Its id, 1 to 128 characters. A repeated id is the same call.
    pub id: String,
    pub agent: AgentId,
    pub caller: CallerNumber,
    pub user_agent: Option<String>,
    pub leg: Leg,
    /// Told what the page shows. Notes that find no room are dropped.
    pub notes: mpsc::Sender<CallNote>,
}

/// A call that waits for a task.
struct WaitingCall {
    reported: OpenedCall,
    origin: CallOrigin,
    trunk: String,
    leg: Leg,
    notes: Option<mpsc::Sender<CallNote>>,
}

impl WaitingCall {
    /// `None` if it cannot be reported; then it is turned away.
    fn offered(call: OfferedCall, now: Millis) -> Option<Self> {
        match reported(&call, now) {
            Ok(reported) => Some(Self {
                reported,
                origin: CallOrigin {
                    caller: call.caller,
                    channel: kind_of(&call.channel),
                },
                trunk: call.trunk,
                leg: call.leg,
                notes: None,
            }),
            Err(error) => {
                tracing::error!(%error, "a call cannot be reported");
                turn_away(&call.leg.orders);
                None
            }
        }
    }

    fn web(call: WebCall, now: Millis) -> Self {
        let page = json!({"userAgent": call.user_agent});
        let incoming = IncomingCall {
            bridge_call_id: call.id,
            called: CalledParty::Agent(call.agent),
            caller_number: call.caller.clone(),
            channel: Some(ChannelKind::Web),
            draft: None,
            metadata: Some(Map::from_iter([(WEB.to_owned(), page)])),
            at: Some(now),
            trace: None,
        };
        Self {
            reported: incoming.into(),
            origin: CallOrigin {
                caller: call.caller.as_str().to_owned(),
                channel: ChannelKind::Web,
            },
            trunk: WEB.to_owned(),
            leg: call.leg,
            notes: Some(call.notes),
        }
    }
}

/// Gives every call a task. Ends once no more calls are taken and all have ended.
pub(crate) async fn accept(
    client: ServiceClient,
    clock: WallClock,
    deps: TaskDeps,
    (mut waiting, mut from_web): (mpsc::Receiver<OfferedCall>, mpsc::Receiver<WebCall>),
    mut closed: oneshot::Receiver<()>,
) {
    let mut calls = JoinSet::new();
    let mut early = EarlyVoices::default();
    loop {
        let incoming = tokio::select! {
            Some(call) = waiting.recv() => WaitingCall::offered(call, clock()),
            Some(call) = from_web.recv() => Some(WaitingCall::web(call, clock())),
            _ = &mut closed => break,
            Some(ended) = calls.join_next() => {
                log(ended);
                continue;
            }
        };
        let Some(call) = incoming else {
            continue;
        };
        match client.open_call(call.reported).await {
            Some(channel) => {
                let permit = early.of_trunk(call.trunk);
                let (deps, leg) = (deps.clone(), call.leg);
                calls.spawn(call::run(
                    deps,
                    channel,
                    leg,
                    call.origin,
                    permit,
                    call.notes,
                ));
            }
            None => turn_away(&call.leg.orders),
        }
    }
    waiting.close();
    from_web.close();
    while let Some(call) = waiting.recv().await {
        turn_away(&call.leg.orders);
    }
    while let Some(call) = from_web.recv().await {
        turn_away(&call.leg.orders);
    }
    drop(client);
    while let Some(ended) = calls.join_next().await {
        log(ended);
    }
}

fn reported(call: &OfferedCall, now: Millis) -> Result<OpenedCall, PhoneError> {
    let mut dids = call.dids.iter().map(|did| did.parse::<PhoneNumber>());
    let incoming = IncomingCall {
        bridge_call_id: call.id.clone(),
        called: dids.next().unwrap_or_else(|| "".parse())?.into(),
        caller_number: call.caller.parse()?,
        channel: Some(kind_of(&call.channel)),
        draft: None,
        metadata: Some(metadata(call)),
        at: Some(now),
        trace: None,
    };
    let other_dids = dids.collect::<Result<_, _>>()?;
    Ok(OpenedCall {
        incoming,
        other_dids,
    })
}

fn kind_of(channel: &OfferedChannel) -> ChannelKind {
    match channel {
        OfferedChannel::Telephone => ChannelKind::Phone,
        OfferedChannel::WhatsApp(_) => ChannelKind::Whatsapp,
    }
}

/// The metadata that the service stores with the call.
fn metadata(call: &OfferedCall) -> Map<String, Value> {
    let sip = json!({
        "callId": call.sip_call_id,
        "trunk": call.trunk,
        "userAgent": call.user_agent,
        "codec": call.codec,
    });
    let mut metadata = Map::from_iter([("sip".to_owned(), sip)]);
    if let OfferedChannel::WhatsApp(details) = &call.channel {
        let whatsapp = json!({
            "callId": details.call_id,
            "ctaPayload": details.cta_payload,
            "deeplinkPayload": details.deeplink_payload,
        });
        metadata.insert("whatsapp".to_owned(), whatsapp);
    }
    metadata
}

fn turn_away(orders: &mpsc::Sender<Order>) {
    let refusal = unavailable("The service stops.");
    let _ = orders.try_send(Order::Reject(refusal));
}

fn log(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a call's task broke");
    }
}

#[cfg(test)]
mod tests {
    use dikala_sip::leg::{Leg, WhatsAppDetails};

    use super::*;

    #[test]
    fn a_call_is_reported_with_what_sip_says_of_it() {
        let (orders, speech, events) = (mpsc::channel(1), mpsc::channel(1), mpsc::channel(1));
        let mut call = OfferedCall {
            id: "1@phone;p1".to_owned(),
            dids: vec!["+622150001000".to_owned(), "+622150002000".to_owned()],
            caller: "anonymous".to_owned(),
            trunk: "here".to_owned(),
            sip_call_id: "1@phone".to_owned(),
            user_agent: None,
            codec: Some("PCMA"),
            channel: OfferedChannel::Telephone,
            leg: Leg {
                orders: orders.0,
                speech: speech.0,
                events: events.1,
            },
        };
        let opened = reported(&call, Millis::from_i64(7)).expect("valid numbers");
        let report = opened.incoming;
        let number = report.called.number().expect("a number");
        assert_eq!(number.as_str(), call.dids[0]);
        assert_eq!(opened.other_dids[0].as_str(), call.dids[1]);
        assert_eq!(report.bridge_call_id, call.id);
        let sip = json!({
            "callId": "1@phone", "trunk": "here", "userAgent": null, "codec": "PCMA",
        });
        let expected = json!({ "sip": sip });
        assert_eq!(report.metadata.map(Value::Object), Some(expected));
        call.channel = OfferedChannel::WhatsApp(WhatsAppDetails {
            call_id: Some("wacid.1".to_owned()),
            cta_payload: Some("order 427".to_owned()),
            deeplink_payload: None,
        });
        let whatsapp =
            json!({"callId": "wacid.1", "ctaPayload": "order 427", "deeplinkPayload": null});
        let expected = json!({ "sip": sip, "whatsapp": whatsapp });
        assert_eq!(Value::Object(metadata(&call)), expected);
    }
}
