//! A telephony bridge with low overhead: one thread, a few sockets, and replies that are searched, not parsed.
//!
//! [`socket`] plays a script: [`calls`] places whole calls, [`burst`] pipelines one step of many calls, [`paced`]
//! keeps a rate.

mod burst;
mod calls;
mod paced;
mod pen;
pub mod reply;
mod socket;
mod tally;

use std::{net::SocketAddr, rc::Rc, time::Duration};

use dikala_entities::{Millis, PhoneNumber, Secret};
use futures_util::future::try_join_all;
use tokio::time::Instant;

use self::{
    burst::Burst, calls::WholeCalls, paced::PacedMessages, pen::MessageWriter, socket::BenchSocket,
};
pub use self::{
    paced::Acknowledgement,
    pen::LifecycleStep,
    tally::{FailureCounts, Tally},
};
use super::Result;

/// The server's address, the bridge's token, and the numbers to call in turn.
#[derive(Clone, Debug)]
pub struct CallTarget {
    pub address: SocketAddr,
    pub token: Secret,
    pub dids: Vec<PhoneNumber>,
}

/// A connected bridge. It must stay on the thread that created it.
#[derive(Debug)]
pub struct BenchBridge {
    dids: Rc<[PhoneNumber]>,
    sockets: Vec<BenchSocket>,
}

/// Ids of the active calls, by socket.
#[derive(Debug, Default)]
pub struct ActiveCalls(Vec<Vec<Vec<u8>>>);

impl ActiveCalls {
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

impl BenchBridge {
    pub async fn connect(line: &CallTarget, sockets: usize) -> Result<Self> {
        let mut open = Vec::new();
        for _ in 0..sockets {
            open.push(BenchSocket::dial(line.address, &line.token).await?);
        }
        Ok(Self {
            dids: line.dids.clone().into(),
            sockets: open,
        })
    }

    fn pen(&self, first: usize) -> MessageWriter {
        MessageWriter::new(Rc::clone(&self.dids), first)
    }

    /// Keeps `at_once` calls active for `time`. Also returns the time until the last acknowledgement.
    pub async fn calls(&mut self, at_once: usize, time: Duration) -> Result<(Tally, Duration)> {
        let began = Instant::now();
        let sockets = self.sockets.len();
        let mut scripts: Vec<WholeCalls> = (0..sockets)
            .map(|n| {
                let share = at_once / sockets + usize::from(n < at_once % sockets);
                WholeCalls::new(self.pen(n * share), share, began + time)
            })
            .collect();
        let playing = self.sockets.iter_mut().zip(&mut scripts);
        let playing = playing.map(|(socket, script)| socket.play(script));
        try_join_all(playing).await?;
        let mut tally = Tally::default();
        for script in &scripts {
            tally.add(&script.tally);
        }
        let took = tally.last.unwrap_or(began) - began;
        Ok((tally, took))
    }

    /// Rings `count` calls, pipelined. `at` holds the time of each ring; if it is empty, the current time is sent.
    pub async fn ring(
        &mut self,
        count: usize,
        at: &[Millis],
    ) -> Result<(ActiveCalls, Tally, Duration)> {
        let sockets = self.sockets.len();
        let of = |n: usize| count / sockets + usize::from(n < count % sockets);
        let mut live = ActiveCalls((0..sockets).map(|n| vec![Vec::new(); of(n)]).collect());
        let (tally, took) = self.step(LifecycleStep::Ring, &mut live, at).await?;
        Ok((live, tally, took))
    }

    /// Sends one step for each of these calls, pipelined.
    pub async fn step(
        &mut self,
        step: LifecycleStep,
        live: &mut ActiveCalls,
        at: &[Millis],
    ) -> Result<(Tally, Duration)> {
        let began = Instant::now();
        let mut first = 0;
        let mut pens = Vec::new();
        let mut moments = Vec::new();
        for calls in &live.0 {
            pens.push(self.pen(first));
            moments.push(at.get(first..first + calls.len()).unwrap_or_default());
            first += calls.len();
        }
        let parts = pens.iter_mut().zip(&mut live.0).zip(moments);
        let mut scripts: Vec<Burst<'_>> = parts
            .map(|((pen, calls), at)| Burst::new(pen, step, calls, at))
            .collect();
        let playing = self.sockets.iter_mut().zip(&mut scripts);
        let playing = playing.map(|(socket, script)| socket.play(script));
        try_join_all(playing).await?;
        let mut tally = Tally::default();
        for script in &scripts {
            tally.add(&script.tally);
        }
        let took = tally.last.unwrap_or(began) - began;
        Ok((tally, took))
    }

    /// Sends `rate` messages a second on the first socket for `time`. Also returns each acknowledgement.
    pub async fn paced(
        &mut self,
        rate: u32,
        time: Duration,
    ) -> Result<(Tally, Vec<Acknowledgement>)> {
        let mut script = PacedMessages::new(self.pen(0), rate, Instant::now() + time);
        self.sockets[0].play(&mut script).await?;
        Ok((script.tally, script.acknowledged))
    }
}
