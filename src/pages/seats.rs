//! Limits the streams of open pages. A session has a few seats; one more closes its oldest, most likely a forgotten
//! page. The seats of one owner, and of all owners, are limited too.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dikala_entities::CredentialHash;
use tokio::sync::oneshot;

const EACH_MAX: usize = 6;

/// The seats of the dashboard's or the console's streams. Each belongs to an owner, such as a tenant.
#[derive(Clone, Debug)]
pub struct StreamSeats<O> {
    taken: Arc<Mutex<Vec<TakenSeat<O>>>>,
    /// Seats of one owner; one more closes the owner's oldest.
    of_owner: usize,
    total: usize,
}

#[derive(Debug)]
struct TakenSeat<O> {
    nth: u64,
    owner: O,
    session: CredentialHash,
    /// Dropped when another page takes the seat.
    _keep: oneshot::Sender<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimitReached;

/// A seat, freed when dropped.
pub struct StreamSeat<O> {
    seats: StreamSeats<O>,
    nth: u64,
    kept: oneshot::Receiver<()>,
}

impl<O> fmt::Debug for StreamSeat<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("nth", &self.nth).finish()
    }
}

impl<O: Copy + PartialEq> StreamSeats<O> {
    /// Limits the seats of all owners and of one owner.
    pub fn new(total: usize, of_owner: usize) -> Self {
        Self {
            taken: Arc::default(),
            of_owner,
            total,
        }
    }

    pub fn take(
        &self,
        owner: O,
        session: CredentialHash,
    ) -> Result<StreamSeat<O>, StreamLimitReached> {
        let mut taken = self.lock();
        let of_owner = |seat: &&TakenSeat<O>| seat.owner == owner;
        let own = taken.iter().filter(of_owner).count();
        let same = |seat: &TakenSeat<O>| seat.owner == owner && seat.session == session;
        // The seats are in the order in which they were taken.
        let oldest = match taken.iter().filter(|seat| same(seat)).count() {
            each if each >= EACH_MAX => taken.iter().position(same),
            _ if own >= self.of_owner => taken.iter().position(|seat| seat.owner == owner),
            _ if taken.len() >= self.total => return Err(StreamLimitReached),
            _ => None,
        };
        if let Some(oldest) = oldest {
            taken.remove(oldest);
        }
        let nth = taken.last().map_or(0, |last| last.nth.wrapping_add(1));
        let (keep, kept) = oneshot::channel();
        taken.push(TakenSeat {
            nth,
            owner,
            session,
            _keep: keep,
        });
        drop(taken);
        Ok(StreamSeat {
            seats: self.clone(),
            nth,
            kept,
        })
    }
}

impl<O> StreamSeats<O> {
    fn lock(&self) -> MutexGuard<'_, Vec<TakenSeat<O>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O> StreamSeat<O> {
    /// Waits until another page takes the seat.
    pub async fn lost(&mut self) {
        // No value is ever sent: this returns when the sender is dropped.
        let _ = (&mut self.kept).await;
    }
}

impl<O> Drop for StreamSeat<O> {
    fn drop(&mut self) {
        // If another page took this seat, its number may be another's by now, so nothing is removed.
        if self.kept.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            self.seats.lock().retain(|taken| taken.nth != self.nth);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn session(name: &str) -> CredentialHash {
        CredentialHash::of(name)
    }

    #[test]
    fn one_more_page_of_a_session_closes_its_oldest_and_no_other() {
        let seats = StreamSeats::new(20, 10);
        let mut other = seats.take(1, session("b")).expect("a seat");
        let mut own: Vec<_> = (0..=EACH_MAX)
            .map(|_| seats.take(1, session("a")).expect("a seat"))
            .collect();
        assert!(own[0].lost().now_or_never().is_some());
        assert!(own[1].lost().now_or_never().is_none());
        assert!(other.lost().now_or_never().is_none());
        // A closed seat frees nothing when it is dropped.
        own.remove(0);
        let mut next = seats.take(1, session("a")).expect("a seat");
        assert!(own[0].lost().now_or_never().is_some());
        assert!(next.lost().now_or_never().is_none());
        // An open seat does.
        drop(next);
        let _again = seats.take(1, session("a")).expect("a seat");
        assert!(own[1].lost().now_or_never().is_none());
    }

    #[test]
    fn an_owner_with_many_sessions_takes_nobody_elses_seats() {
        let seats = StreamSeats::new(5, 3);
        let take = |owner, name: &str| seats.take(owner, session(name));
        let mut many: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| take(1, name).expect("a seat"))
            .into();
        assert!(many[0].lost().now_or_never().is_some());
        assert!(many[1].lost().now_or_never().is_none());
        let _others = ["a", "b"].map(|name| take(2, name).expect("a seat"));
        assert_eq!(take(3, "a").expect_err("is full"), StreamLimitReached);
        drop(many);
        take(3, "a").expect("seats that were given back");
    }
}
