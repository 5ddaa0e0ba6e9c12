//! How much strangers may ask in a second: each address a little, all together a bounded amount. Pure.

use std::{collections::HashMap, net::IpAddr};

/// What is read of one address and of all strangers together.
const OF_ONE: u32 = 400;
const OF_ALL: u32 = 2_000;
/// Addresses that are told apart.
const ADDRESSES_MAX: usize = 10_000;

/// Counts what strangers send, by the second.
#[derive(Debug, Default)]
pub struct Flood {
    second: u64,
    all: u32,
    each: HashMap<IpAddr, u32>,
}

impl Flood {
    /// Whether one more message of this address is read. `second` counts up from any beginning.
    pub fn admits(&mut self, ip: IpAddr, second: u64) -> bool {
        if second != self.second {
            self.second = second;
            self.all = 0;
            self.each.clear();
        }
        let known = self.each.len();
        let room = known < ADDRESSES_MAX;
        let of_one = match self.each.get_mut(&ip) {
            Some(count) => count,
            None if room => self.each.entry(ip).or_default(),
            None => return false,
        };
        if *of_one >= OF_ONE || self.all >= OF_ALL {
            return false;
        }
        *of_one += 1;
        self.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stranger_does_not_silence_the_others() {
        let mut flood = Flood::default();
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let read = (0..100_000).filter(|_| flood.admits(ip(1), 7)).count();
        assert_eq!(read, OF_ONE as usize);
        assert!(flood.admits(ip(2), 7));
        assert!(flood.admits(ip(1), 8), "the next second begins anew");
        let many = (0..=255).flat_map(|last| std::iter::repeat_n(last, 300));
        let read = many.filter(|last| flood.admits(ip(*last), 9)).count();
        assert_eq!(read, OF_ALL as usize);
    }
}
