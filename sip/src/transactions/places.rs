//! Places in the table of server transactions: nobody fills it for others. Pure.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
};

use crate::limits::address_holder::holder;

/// Places for requests that begin calls, and as many for requests inside calls.
const PLACES: usize = 10_000;
/// Places that a trunk, or the BYEs of an address, may hold for each free place. Anybody else may hold one.
const GREAT_SHARE: usize = 4;

/// The owner of a place in the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PlaceHolder {
    Trunk(String),
    Address(IpAddr),
}

/// The place of a request in the table.
#[derive(Debug, Clone)]
pub enum TransactionPlace {
    /// It begins a call of a trunk. `phone`: the address, unless the trunk itself calls.
    Begins {
        trunk: String,
        phone: Option<IpAddr>,
    },
    /// It came from this address and belongs to a call, which it may end.
    Inside { address: IpAddr, ends: bool },
}

impl TransactionPlace {
    /// The holders of the place, with their shares.
    fn holders(&self) -> Vec<(PlaceHolder, usize)> {
        let of = |ip: &IpAddr, share| (PlaceHolder::Address(holder(*ip)), share);
        match self {
            Self::Begins { trunk, phone } => {
                let trunk = PlaceHolder::Trunk(trunk.clone());
                let phone = phone.as_ref().map(|ip| of(ip, 1));
                phone.into_iter().chain([(trunk, GREAT_SHARE)]).collect()
            }
            Self::Inside { address, ends } => {
                vec![of(address, if *ends { GREAT_SHARE } else { 1 })]
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct TransactionPlaces {
    begins: PlacePool,
    inside: PlacePool,
}

#[derive(Debug, Default)]
struct PlacePool {
    all: usize,
    held: HashMap<PlaceHolder, usize>,
}

impl TransactionPlaces {
    fn pool(&mut self, place: &TransactionPlace) -> &mut PlacePool {
        match place {
            TransactionPlace::Begins { .. } => &mut self.begins,
            TransactionPlace::Inside { .. } => &mut self.inside,
        }
    }

    /// Takes the place, if its holders have room.
    pub fn take(&mut self, place: &TransactionPlace) -> bool {
        let pool = self.pool(place);
        let free = PLACES - pool.all;
        let holders = place.holders();
        let has_room = |(holder, share): &(PlaceHolder, usize)| {
            pool.held.get(holder).copied().unwrap_or_default() < share * free
        };
        if !holders.iter().all(has_room) {
            return false;
        }
        pool.all += 1;
        for (holder, _) in holders {
            *pool.held.entry(holder).or_default() += 1;
        }
        true
    }

    pub fn give_back(&mut self, place: &TransactionPlace) {
        let pool = self.pool(place);
        pool.all -= 1;
        for (holder, _) in place.holders() {
            if let Entry::Occupied(mut held) = pool.held.entry(holder) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn begins(trunk: &str, phone: Option<u8>) -> TransactionPlace {
        let trunk = trunk.to_owned();
        let phone = phone.map(ip);
        TransactionPlace::Begins { trunk, phone }
    }

    fn inside(last: u8, ends: bool) -> TransactionPlace {
        let address = ip(last);
        TransactionPlace::Inside { address, ends }
    }

    fn taken(places: &mut TransactionPlaces, place: &TransactionPlace) -> usize {
        (0..3 * PLACES).filter(|_| places.take(place)).count()
    }

    #[test]
    fn a_trunk_and_a_phone_leave_places_to_others() {
        let mut places = TransactionPlaces::default();
        assert_eq!(taken(&mut places, &begins("users", Some(1))), PLACES / 2);
        let of_trunk = taken(&mut places, &begins("users", Some(2)));
        assert_eq!(of_trunk, PLACES / 4, "another phone of the trunk");
        let of_other = taken(&mut places, &begins("other", None));
        assert!(of_other > 1_000, "another trunk: {of_other}");
        assert!(places.take(&begins("third", None)));
    }

    #[test]
    fn calls_can_be_ended_whatever_is_sent() {
        let mut places = TransactionPlaces::default();
        taken(&mut places, &begins("greedy", None));
        assert_eq!(taken(&mut places, &inside(1, false)), PLACES / 2);
        let ended = taken(&mut places, &inside(1, true));
        assert_eq!(ended, 3_000, "the same address ends its calls");
        assert!(places.take(&inside(2, true)));
        assert!(places.take(&inside(2, false)));
    }

    #[test]
    fn places_come_back() {
        let mut places = TransactionPlaces::default();
        for place in [begins("a", Some(1)), begins("a", None), inside(1, true)] {
            let count = taken(&mut places, &place);
            (0..count).for_each(|_| places.give_back(&place));
            assert_eq!(taken(&mut places, &place), count);
            (0..count).for_each(|_| places.give_back(&place));
        }
        assert_eq!(places.begins.all + places.inside.all, 0);
        assert!(places.begins.held.is_empty() && places.inside.held.is_empty());
    }
}
