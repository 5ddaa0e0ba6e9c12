//! Ids of a simulation, for rows that are ordered by id; a seed gives the same ids. Ids that only name things stay
//! random.

use std::{
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use dikala_entities::Millis;

/// The digits of ULIDs, in lower case.
const SIGNS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The ids of one process: like real ones, each later than the one before.
#[derive(Clone, Debug)]
pub(crate) struct Ids(Arc<Mutex<u128>>, u128);

impl Ids {
    /// The ids of the process with that number.
    pub(crate) fn of(process: u64) -> Self {
        Self(Arc::default(), u128::from(process) << 40)
    }

    pub(crate) fn next<T: FromStr>(&self, prefix: &str, now: Millis) -> T {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = (u128::from(now.as_u64()) << 80) | self.1;
        *last = first.max(*last + 1);
        named(prefix, *last)
    }
}

fn named<T: FromStr>(prefix: &str, number: u128) -> T {
    let sign = |at: u32| {
        let five = (number >> (5 * at)) & 31;
        char::from(SIGNS[usize::try_from(five).unwrap_or(0)])
    };
    let text: String = (0..26).rev().map(sign).collect();
    let id = format!("{prefix}_{text}").parse();
    id.unwrap_or_else(|_| panic!("{prefix}_{text} is an id"))
}

#[test]
fn they_are_ids_and_grow() {
    let ids = Ids::of(3);
    let now = super::clock::BEGAN;
    let some: Vec<dikala_entities::DeliveryId> = [0, 0, 5, 2]
        .map(|ms| ids.next("dlv", now.plus_ms(ms)))
        .to_vec();
    assert!(some.is_sorted());
    assert_eq!(some[2].as_u128() >> 80, u128::from(now.plus_ms(5).as_u64()));
}
