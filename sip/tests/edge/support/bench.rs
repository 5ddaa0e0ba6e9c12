//! An edge on free ports, and the tasks of its calls.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use dikala_sip::{
    Edge,
    leg::{CallRefusal, HangupNote, LegEvent, OfferedCall, OfferedChannel, Order, Speech},
    settings::{
        Codec, Credentials, ListenAddress, SipSettings, SipTransport, Srtp, Trunk, UserAgent,
    },
};
use rustls::ClientConfig;
use tokio::sync::mpsc;

use super::{publicly, turn::wait_for_turn};

/// The behaviour of a call's task.
#[derive(Debug, Clone)]
pub enum CallBehaviour {
    /// Rings, answers, and echoes the caller.
    Echo,
    /// Rings, answers, and plays a tone of 440 Hz.
    Tone,
    /// Rings and waits.
    Ring,
    Reject(CallRefusal),
    /// Answers and hangs up once the call is established.
    HangUp,
    /// Answers and transfers the caller; cancels that if the caller presses `*`, and flushes afterwards: [`LegEvent::Flushed`]
    /// shows that it is cancelled.
    Transfer(String),
}

/// A call as its task saw it.
#[derive(Debug, Clone, Default)]
pub struct ObservedCall {
    pub id: String,
    pub did: String,
    pub caller: String,
    pub trunk: String,
    pub sip_call_id: String,
    pub user_agent: Option<String>,
    pub codec: Option<&'static str>,
    pub channel: OfferedChannel,
    /// Without audio.
    pub events: Vec<LegEvent>,
    /// Frames heard, and the loudest sample.
    pub frames: usize,
    pub loudest: u16,
    /// The audio heard so far, at 16 kHz.
    pub audio: Vec<i16>,
    pub over: bool,
    orders: Option<mpsc::WeakSender<Order>>,
}

#[derive(Debug)]
pub struct TestEdge {
    pub edge: Edge,
    seen: Arc<Mutex<Vec<ObservedCall>>>,
}

/// A trunk that admits this machine.
pub fn trunk() -> Trunk {
    Trunk {
        name: "here".to_owned(),
        addresses: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
        prefix: Some("+62".to_owned()),
        ..Trunk::default()
    }
}

pub const USER_AGENT: UserAgent = UserAgent {
    name: "dikala",
    product: "Dikala/0",
};

impl TestEdge {
    pub async fn new(manner: CallBehaviour) -> Self {
        Self::with(manner, 200, |_| ()).await
    }

    pub async fn with(
        manner: CallBehaviour,
        max_calls: usize,
        change: impl FnOnce(&mut SipSettings),
    ) -> Self {
        Self::trusting(publicly(), manner, max_calls, change).await
    }

    pub fn settings(max_calls: usize) -> SipSettings {
        let listen = |transport, host: &str| ListenAddress {
            transport,
            address: SocketAddr::new(host.parse().unwrap(), 0),
        };
        SipSettings {
            threads: 2,
            max_calls,
            listen: vec![
                listen(SipTransport::Udp, "127.0.0.1"),
                listen(SipTransport::Tcp, "127.0.0.1"),
            ],
            public_address: None,
            local_networks: Vec::new(),
            tls: None,
            rtp_ports: 20_000..=31_999,
            codecs: vec![Codec::Opus, Codec::G722, Codec::Pcma, Codec::Pcmu],
            srtp: Srtp::Optional,
            trunks: vec![trunk()],
            nameservers: Vec::new(),
        }
    }

    pub async fn trusting(
        tls: Arc<ClientConfig>,
        manner: CallBehaviour,
        max_calls: usize,
        change: impl FnOnce(&mut SipSettings),
    ) -> Self {
        wait_for_turn();
        let mut settings = Self::settings(max_calls);
        change(&mut settings);
        let (incoming, calls) = mpsc::channel(64);
        let edge = Edge::start(settings, USER_AGENT, tls, incoming)
            .await
            .unwrap();
        let seen = Arc::<Mutex<Vec<ObservedCall>>>::default();
        tokio::spawn(serve(calls, manner, seen.clone()));
        Self { edge, seen }
    }

    /// A trunk for users with a digest, without addresses.
    pub fn of_users() -> Vec<Trunk> {
        vec![Trunk {
            name: "users".to_owned(),
            credentials: Some(Credentials {
                username: "ayu".to_owned(),
                password: "rahasia".to_owned(),
            }),
            ..Trunk::default()
        }]
    }

    pub fn address(&self, transport: SipTransport) -> SocketAddr {
        let all = self.edge.addresses();
        let found = all.iter().find(|listen| listen.transport == transport);
        found.unwrap().address
    }

    pub fn udp(&self) -> SocketAddr {
        self.address(SipTransport::Udp)
    }

    pub fn calls(&self) -> Vec<ObservedCall> {
        self.seen.lock().unwrap().clone()
    }

    /// The call of this caller.
    pub fn of(&self, caller: &str) -> Option<ObservedCall> {
        let calls = self.calls();
        calls.into_iter().find(|call| call.caller == caller)
    }

    /// The only call so far.
    pub fn call(&self) -> ObservedCall {
        let calls = self.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls[0].clone()
    }

    /// The messages of a call that the edge sent, or received, with this beginning.
    pub fn messages(&self, call: &ObservedCall, is_sent: bool, beginning: &str) -> Vec<String> {
        let ladder = self.edge.ladder(&call.id).unwrap();
        let messages = ladder.messages.into_iter();
        let found = messages.filter(|message| message.is_sent == is_sent);
        found
            .map(|message| message.text.into_string())
            .filter(|text| text.starts_with(beginning))
            .collect()
    }

    /// Gives the only call an order.
    pub async fn order(&self, order: Order) {
        let orders = self.call().orders.and_then(|orders| orders.upgrade());
        orders.unwrap().send(order).await.unwrap();
    }

    /// A caller and a person hear each other.
    pub fn is_joined(&self) -> bool {
        let is_it = |event: &LegEvent| matches!(event, LegEvent::Joined { .. });
        self.calls()
            .iter()
            .any(|call| call.events.iter().any(is_it))
    }

    pub fn saw(&self, event: &LegEvent) -> bool {
        self.calls().iter().any(|call| call.events.contains(event))
    }
}

async fn serve(
    mut calls: mpsc::Receiver<OfferedCall>,
    manner: CallBehaviour,
    seen: Arc<Mutex<Vec<ObservedCall>>>,
) {
    while let Some(call) = calls.recv().await {
        let at = {
            let mut seen = seen.lock().unwrap();
            seen.push(ObservedCall {
                id: call.id.clone(),
                did: call.dids[0].clone(),
                caller: call.caller.clone(),
                trunk: call.trunk.clone(),
                sip_call_id: call.sip_call_id.clone(),
                user_agent: call.user_agent.clone(),
                codec: call.codec,
                orders: Some(call.leg.orders.downgrade()),
                channel: call.channel.clone(),
                ..ObservedCall::default()
            });
            seen.len() - 1
        };
        tokio::spawn(one(call, manner.clone(), seen.clone(), at));
    }
}

async fn one(
    call: OfferedCall,
    manner: CallBehaviour,
    seen: Arc<Mutex<Vec<ObservedCall>>>,
    at: usize,
) {
    let mut leg = call.leg;
    let order = leg.orders.clone();
    let to = |orders: Vec<Order>| {
        let order = order.clone();
        async move {
            for one in orders {
                let _ = order.send(one).await;
            }
        }
    };
    match &manner {
        CallBehaviour::Reject(refusal) => to(vec![Order::Reject(refusal.clone())]).await,
        CallBehaviour::Ring => to(vec![Order::Ring]).await,
        _ => {
            let did = call.dids[0].clone();
            to(vec![Order::Ring, Order::Answer { did }]).await;
        }
    }
    while let Some(event) = leg.events.recv().await {
        match &event {
            LegEvent::Audio(samples) => {
                let said = echoed(samples);
                {
                    let mut seen = seen.lock().unwrap();
                    let seen = &mut seen[at];
                    seen.frames += 1;
                    let loudest = samples.iter().map(|sample| sample.unsigned_abs()).max();
                    seen.loudest = seen.loudest.max(loudest.unwrap_or_default());
                    if seen.audio.len() < 16_000 * 60 {
                        seen.audio.extend_from_slice(samples);
                    }
                }
                match &manner {
                    CallBehaviour::Echo => drop(leg.speech.try_send(Speech::Audio(said))),
                    CallBehaviour::Tone => drop(leg.speech.try_send(Speech::Audio(tone(480)))),
                    _ => {}
                }
                continue;
            }
            LegEvent::Answered => match &manner {
                CallBehaviour::HangUp => {
                    let words = "enough said".to_owned();
                    to(vec![Order::Hangup(HangupNote { words })]).await;
                }
                CallBehaviour::Transfer(number) => {
                    let number = number.clone();
                    to(vec![Order::Transfer { to: number }]).await;
                }
                _ => {}
            },
            LegEvent::Key('*') if matches!(manner, CallBehaviour::Transfer(_)) => {
                to(vec![Order::CancelTransfer, Order::Flush]).await;
            }
            _ => {}
        }
        let ends = matches!(event, LegEvent::MediaLost);
        seen.lock().unwrap()[at].events.push(event);
        if ends {
            break;
        }
    }
    seen.lock().unwrap()[at].over = true;
}

/// 16 kHz to 24 kHz, good enough for a test.
fn echoed(samples: &[i16]) -> Vec<i16> {
    samples
        .chunks(2)
        .flat_map(|pair| {
            let (one, two) = (pair[0], *pair.last().unwrap());
            let between = i32::midpoint(i32::from(one), i32::from(two));
            [one, i16::try_from(between).unwrap(), two]
        })
        .collect()
}

/// Approximately a tone of 440 Hz at 24 kHz: a triangle.
fn tone(samples: usize) -> Vec<i16> {
    (0..samples)
        .map(|at| {
            let phase = i32::try_from(at * 440 % 24_000).unwrap();
            let height = if phase < 12_000 {
                phase - 6_000
            } else {
                18_000 - phase
            };
            i16::try_from(height * 2).unwrap()
        })
        .collect()
}
