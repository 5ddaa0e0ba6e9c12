//! A telephony bridge that costs little beside the server: one thread, a few sockets, messages written straight into their
//! buffers and replies searched for what matters. [`socket`] plays a script: [`calls`] places whole calls one after the other,
//! [`burst`] pipelines one step of many, [`paced`] keeps a rate.

mod burst;
mod calls;
pub mod frames;
mod paced;
mod pen;
mod socket;
mod tally;

use std::{net::SocketAddr, rc::Rc, time::Duration};

use futures_util::future::try_join_all;
use tokio::time::Instant;

use self::{burst::Burst, calls::Calls, paced::Paced, pen::Pen, socket::Socket};
pub use self::{
    paced::Acknowledged,
    pen::Step,
    tally::{Faults, Tally},
};
use super::{Result, failed};

/// Whom a bridge talks to, and which numbers it calls in turn.
#[derive(Clone, Debug)]
pub struct Line {
    pub address: SocketAddr,
    pub token: String,
    pub dids: Vec<String>,
}

/// A connected bridge. It lives on the thread that made it.
#[derive(Debug)]
pub struct Bridge {
    dids: Rc<[String]>,
    sockets: Vec<Socket>,
}

/// Calls that were placed and not ended, by socket.
#[derive(Debug, Default)]
pub struct Live(Vec<Vec<Vec<u8>>>);

impl Live {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

impl Bridge {
    pub async fn connect(line: &Line, sockets: usize) -> Result<Self> {
        let mut open = Vec::new();
        for _ in 0..sockets {
            let socket = Socket::dial(line.address, &line.token).await;
            open.push(socket.map_err(failed)?);
        }
        Ok(Self {
            dids: line.dids.clone().into(),
            sockets: open,
        })
    }

    fn pen(&self, first: usize) -> Pen {
        Pen::new(Rc::clone(&self.dids), first)
    }

    /// Whole calls, so many at once, for a time. Also how long it took until the last was acknowledged.
    pub async fn calls(&mut self, at_once: usize, time: Duration) -> Result<(Tally, Duration)> {
        let began = Instant::now();
        let sockets = self.sockets.len();
        let mut scripts: Vec<Calls> = (0..sockets)
            .map(|n| {
                let share = at_once / sockets + usize::from(n < at_once % sockets);
                Calls::new(self.pen(n * share), share, began + time)
            })
            .collect();
        let playing = self.sockets.iter_mut().zip(&mut scripts);
        let playing = playing.map(|(socket, script)| socket.play(script));
        try_join_all(playing).await.map_err(failed)?;
        let mut tally = Tally::default();
        for script in &scripts {
            tally.add(&script.tally);
        }
        let took = tally.last.unwrap_or(began) - began;
        Ok((tally, took))
    }

    /// Rings, pipelined. `at` says when each happened; now, if it is empty.
    pub async fn ring(&mut self, count: usize, at: &[String]) -> Result<(Live, Tally, Duration)> {
        let sockets = self.sockets.len();
        let of = |n: usize| count / sockets + usize::from(n < count % sockets);
        let mut live = Live((0..sockets).map(|n| vec![Vec::new(); of(n)]).collect());
        let (tally, took) = self.step(Step::Ring, &mut live, at).await?;
        Ok((live, tally, took))
    }

    /// One step of all these calls, pipelined.
    pub async fn step(
        &mut self,
        step: Step,
        live: &mut Live,
        at: &[String],
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
        try_join_all(playing).await.map_err(failed)?;
        let mut tally = Tally::default();
        for script in &scripts {
            tally.add(&script.tally);
        }
        let took = tally.last.unwrap_or(began) - began;
        Ok((tally, took))
    }

    /// So many messages a second for a time, on the first socket. Also each acknowledgement.
    pub async fn paced(&mut self, rate: u32, time: Duration) -> Result<(Tally, Vec<Acknowledged>)> {
        let mut script = Paced::new(self.pen(0), rate, Instant::now() + time);
        let played = self.sockets[0].play(&mut script).await;
        played.map_err(failed)?;
        Ok((script.tally, script.acknowledged))
    }
}
