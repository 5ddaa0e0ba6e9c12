//! A phone line in memory, in place of a SIP edge, without sockets.

use dikala_sip::leg::{CallRefusal, Leg, LegEvent, OfferedCall, OfferedChannel, Order, Speech};
use dikala_telephony::bridge::CallTasks;
use tokio::{sync::mpsc, time::timeout};

use super::PATIENCE;

pub struct MemoryLine {
    orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<LegEvent>,
}

impl MemoryLine {
    /// Calls this number.
    pub async fn dial(calls: &CallTasks, did: &str, id: &str) -> Self {
        Self::dial_one_of(calls, &[did], id).await
    }

    /// Calls the first of these numbers that somebody has.
    pub async fn dial_one_of(calls: &CallTasks, dids: &[&str], id: &str) -> Self {
        let (orders, ordered) = mpsc::channel(64);
        let (speech, said) = mpsc::channel(256);
        let (events, happened) = mpsc::channel(256);
        tokio::spawn(play(said, events.clone()));
        let incoming = OfferedCall {
            id: id.to_owned(),
            dids: dids.iter().map(|did| (*did).to_owned()).collect(),
            caller: "+6281234567890".to_owned(),
            trunk: "memory".to_owned(),
            sip_call_id: id.to_owned(),
            user_agent: None,
            codec: None,
            channel: OfferedChannel::Telephone,
            leg: Leg {
                orders,
                speech,
                events: happened,
            },
        };
        calls.incoming().send(incoming).await.unwrap();
        Self {
            orders: ordered,
            events,
        }
    }

    async fn next(&mut self) -> Order {
        let order = timeout(PATIENCE, self.orders.recv()).await;
        order.expect("an order comes").expect("the call goes on")
    }

    /// Waits for the answer and acknowledges it. Returns the called number that counts.
    pub async fn answered(&mut self) -> String {
        assert_eq!(self.next().await, Order::Ring);
        let Order::Answer { did } = self.next().await else {
            panic!("no answer");
        };
        self.events.send(LegEvent::Answered).await.unwrap();
        did
    }

    pub async fn refused(mut self) -> CallRefusal {
        assert_eq!(self.next().await, Order::Ring);
        match self.next().await {
            Order::Reject(refusal) => refusal,
            other => panic!("{other:?} is no refusal"),
        }
    }

    pub async fn press(&mut self, keys: &str) {
        for key in keys.chars() {
            self.events.send(LegEvent::Key(key)).await.unwrap();
        }
    }

    /// Waits for the hang-up; returns its reason.
    pub async fn hung_up(&mut self) -> String {
        loop {
            match self.next().await {
                Order::Hangup(ending) => return ending.words,
                Order::Flush => {
                    let flushed = LegEvent::Flushed { total_played_ms: 0 };
                    self.events.send(flushed).await.unwrap();
                }
                _ => {}
            }
        }
    }
}

/// Plays speech instantly.
async fn play(mut said: mpsc::Receiver<Speech>, events: mpsc::Sender<LegEvent>) {
    while let Some(speech) = said.recv().await {
        if let Speech::Mark(mark) = speech
            && events.send(LegEvent::Played(mark)).await.is_err()
        {
            return;
        }
    }
}
