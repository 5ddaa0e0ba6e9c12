//! Limits open connections. Strangers have few, and one more replaces an old one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::limits::address_holder::holder;

const ALL_MAX: usize = 4_096;
const OF_ONE_MAX: usize = 512;
const STRANGERS_MAX: usize = 512;
const OF_ONE_STRANGER_MAX: usize = 32;

#[derive(Debug, Default)]
pub struct SipConnectionLimits {
    taken: Mutex<ConnectionCounts>,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    next: u64,
    each: HashMap<IpAddr, usize>,
    all: usize,
    strangers: HashMap<u64, Stranger>,
}

/// A peer that has not authenticated.
#[derive(Debug)]
struct Stranger {
    source: IpAddr,
    /// Sequence number of the last message; a higher one is later.
    heard: u64,
    lost: Arc<Notify>,
}

/// The permit for a connection; released when it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: Arc<SipConnectionLimits>,
    number: u64,
    source: IpAddr,
    lost: Arc<Notify>,
}

impl SipConnectionLimits {
    fn taken(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a permit for a peer at this address. If all limits for strangers are taken, a stranger replaces another: of the address
    /// that holds the most, the one that was silent for longest.
    pub fn take(self: &Arc<Self>, ip: IpAddr, is_known: bool) -> Option<ConnectionPermit> {
        let source = holder(ip);
        let mut taken = self.taken();
        let of_one = taken.each.get(&source).copied().unwrap_or_default();
        if taken.all >= ALL_MAX || of_one >= OF_ONE_MAX {
            return None;
        }
        let lost = Arc::<Notify>::default();
        taken.next += 1;
        let number = taken.next;
        if !is_known {
            taken.make_room(source);
            let stranger = Stranger {
                source,
                heard: number,
                lost: lost.clone(),
            };
            taken.strangers.insert(number, stranger);
        }
        taken.all += 1;
        *taken.each.entry(source).or_default() += 1;
        Some(ConnectionPermit {
            limits: self.clone(),
            number,
            source,
            lost,
        })
    }
}

impl ConnectionCounts {
    fn make_room(&mut self, source: IpAddr) {
        let mut held = HashMap::<IpAddr, usize>::new();
        for stranger in self.strangers.values() {
            *held.entry(stranger.source).or_default() += 1;
        }
        let own = held.get(&source).copied().unwrap_or_default();
        let from = match own >= OF_ONE_STRANGER_MAX {
            true => source,
            false if self.strangers.len() >= STRANGERS_MAX => {
                let most = held.into_iter().max_by_key(|(_, count)| *count);
                most.map_or(source, |(source, _)| source)
            }
            false => return,
        };
        let of_them = self.strangers.iter().filter(|(_, one)| one.source == from);
        let oldest = of_them.min_by_key(|(_, one)| one.heard);
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(stranger) = self.strangers.remove(&number)
        {
            stranger.lost.notify_one();
        }
    }
}

impl ConnectionPermit {
    /// Completes when this stranger has to make room.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Records that a stranger sent something.
    pub fn heard(&self) {
        let mut taken = self.limits.taken();
        taken.next += 1;
        let heard = taken.next;
        if let Some(stranger) = taken.strangers.get_mut(&self.number) {
            stranger.heard = heard;
        }
    }

    /// The peer has authenticated, and is no stranger any more.
    pub fn proven(&self) {
        self.limits.taken().strangers.remove(&self.number);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.limits.taken();
        taken.strangers.remove(&self.number);
        taken.all -= 1;
        if let Some(of_one) = taken.each.get_mut(&self.source) {
            *of_one -= 1;
            if *of_one == 0 {
                taken.each.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_lost(permit: &ConnectionPermit) -> bool {
        permit.lost().now_or_never().is_some()
    }

    #[test]
    fn a_newcomer_takes_the_seat_of_who_was_silent_for_longest_where_most_are_held() {
        let limits = Arc::<SipConnectionLimits>::default();
        let mut held = Vec::new();
        for last in 0..=16 {
            let of_one = if last < 15 { 32 } else { 16 };
            for _ in 0..of_one {
                held.push(limits.take(ip(last), false).expect("a permit"));
            }
        }
        assert_eq!(held.len(), STRANGERS_MAX);
        for permit in &held[..15 * 32] {
            permit.heard();
        }
        // Addresses with few connections keep them, however long they are silent.
        let newcomer = limits.take(ip(200), false).expect("a permit");
        let lost: Vec<usize> = (0..held.len()).filter(|at| is_lost(&held[*at])).collect();
        assert_eq!(lost.len(), 1);
        let is_first = lost[0].is_multiple_of(32);
        assert!(is_first && lost[0] < 15 * 32, "{lost:?}");
        assert!(!is_lost(&newcomer));
        drop(held);
        drop(newcomer);
        let taken = limits.taken();
        assert_eq!(
            (taken.all, taken.each.len(), taken.strangers.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn one_address_has_its_own_share() {
        let limits = Arc::<SipConnectionLimits>::default();
        let mut held: Vec<ConnectionPermit> =
            (0..32).filter_map(|_| limits.take(ip(1), false)).collect();
        held[0].proven();
        held.push(limits.take(ip(1), false).expect("a permit"));
        assert!(!held.iter().any(is_lost), "one of them is no stranger");
        held.push(limits.take(ip(1), false).expect("a permit"));
        assert_eq!(held.iter().filter(|permit| is_lost(permit)).count(), 1);
        // Known peers have more connections, but not all.
        let known: Vec<ConnectionPermit> = (0..4_096)
            .filter_map(|_| limits.take(ip(2), true))
            .collect();
        assert_eq!(known.len(), OF_ONE_MAX);
    }
}
