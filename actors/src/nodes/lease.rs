//! The arithmetic of leases, and who may take what. Two clocks are in it, and no instant of one is compared with one of the
//! other: the database's, in which leases end, and the node's own monotonic one, by which it stops in time.

/// How long a lease lasts after it was renewed, by the database's clock, in milliseconds.
pub const LEASE_MS: i64 = 15_000;
/// How much of its lease a node leaves unused: what it began before must be over when others may begin.
const UNUSED_MS: i64 = 3_000;
/// A lease that was renewed is renewed again after this.
pub(super) const RENEW_EVERY_MS: u64 = 5_000;
/// One that could not be renewed is tried again after this.
pub(super) const AGAIN_AFTER_MS: u64 = 250;
/// Bridges that are sent away have this long to connect to another node and speak there.
const RECONNECT_MS: i64 = 10_000;
/// After the database was away every node has this long to renew its lease before others end it.
const RETURN_MS: i64 = 10_000;

/// Until when a node may act whose renewal was granted, by its own clock. It counts from when it asked: the database's lease
/// began after that.
pub(super) fn acts_until(asked_at: i64) -> i64 {
    asked_at.saturating_add(LEASE_MS - UNUSED_MS)
}

/// How much is left of the lease, by the same clock as [`acts_until`], in milliseconds.
pub(super) fn left(acts_until: i64, now: i64) -> i64 {
    acts_until
        .saturating_add(UNUSED_MS)
        .saturating_sub(now)
        .clamp(0, LEASE_MS)
}

/// Whether a node that may not act keeps the sockets of its bridges, by the same clock. Where it knows of others they are to go
/// there at once. One that never did may be alone with a database that is away, and bridges gain nothing from leaving; but others
/// may have come since, and count the silence of its bridges, which have to speak there before `lost_after_ms` is over.
pub(super) fn keeps_bridges(
    acts_until: i64,
    now: i64,
    has_met_others: bool,
    lost_after_ms: i64,
) -> bool {
    let asked_at = acts_until.saturating_sub(LEASE_MS - UNUSED_MS);
    !has_met_others && now.saturating_sub(asked_at) < lost_after_ms.saturating_sub(RECONNECT_MS)
}

/// Whether a node may end another, all by the database's clock: its lease is over, and it was not the database that kept it from
/// renewing it. `answering_since` is since when the database has answered who asks.
pub fn may_end(lease_until: i64, now: i64, answering_since: i64) -> bool {
    now > lease_until && now.saturating_sub(answering_since) > RETURN_MS
}

/// Whose a running call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This node's.
    This,
    /// Another node's, which has not been ended.
    Another,
    /// That of a node that left or was ended.
    Nobody,
}

/// Why a node wants a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It looks for what nobody has.
    Looking,
    /// Somebody speaks to the call here: its bridge, or who wants it to end.
    SpokenTo,
}

/// Whether a node takes a call that it has not, given that its own lease lasts.
pub fn may_take(owner: Owner, reason: Reason, acts: bool) -> bool {
    acts && match owner {
        Owner::This => false,
        Owner::Another => reason == Reason::SpokenTo,
        Owner::Nobody => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a renewal takes, and wherever the clocks stand: a node has stopped when another may end it. Clocks run at
        /// the same speed within two percent.
        #[test]
        fn nobody_acts_when_others_may_end_him(
            asked_at in 0..10_000_000_i64,
            took in 0..20_000_i64,
            offset in -10_000_000_000..10_000_000_000_i64,
            percent in 98..=102_i64,
            after in 0..40_000_i64,
            answering_for in 0..100_000_i64,
        ) {
            let lease_until = asked_at + took + offset + LEASE_MS;
            let true_now = asked_at + after;
            // The node's own clock, which read `asked_at` when it asked.
            let own_now = asked_at + after * percent / 100;
            let now = true_now + offset;
            let acts = own_now < acts_until(asked_at);
            prop_assert!(!(acts && may_end(lease_until, now, now - answering_for)));
        }

        /// A node that dies is ended as soon as its lease is over, and one that could not reach the database is given time.
        #[test]
        fn the_dead_are_ended_and_the_cut_off_are_waited_for(
            lease_until in 0..10_000_000_i64,
            late in 1..1_000_000_i64,
            answering_for in 0..1_000_000_i64,
        ) {
            let now = lease_until + late;
            prop_assert_eq!(may_end(lease_until, now, now - answering_for), answering_for > RETURN_MS);
            prop_assert!(!may_end(lease_until, lease_until, i64::MIN));
        }

        #[test]
        fn what_is_left_is_between_nothing_and_all(asked_at in 0..10_000_000_i64, after in 0..100_000_i64) {
            let left = left(acts_until(asked_at), asked_at + after);
            prop_assert_eq!(left, (LEASE_MS - after).max(0));
        }
    }

    /// Another node that came in the moment of the last renewal may count from then on.
    #[test]
    fn bridges_are_kept_only_as_long_as_others_cannot_have_given_them_up() {
        let asked_at = 5_000;
        let keeps = |after, has_met_others, lost_after_ms| {
            keeps_bridges(
                acts_until(asked_at),
                asked_at + after,
                has_met_others,
                lost_after_ms,
            )
        };
        for (after, has_met_others, lost_after_ms, kept) in [
            (19_999, false, 30_000, true),
            (20_000, false, 30_000, false),
            (12_000, true, 30_000, false),
            (60_000, false, 90_000, true),
            (80_000, false, 90_000, false),
            (12_000, false, 5_000, false),
        ] {
            assert_eq!(keeps(after, has_met_others, lost_after_ms), kept, "{after}");
        }
        assert!(!keeps_bridges(i64::MIN, 0, false, 30_000), "it was ended");
    }

    #[test]
    fn a_call_of_a_living_node_moves_only_where_somebody_speaks_to_it() {
        for (owner, reason, takes) in [
            (Owner::This, Reason::Looking, false),
            (Owner::This, Reason::SpokenTo, false),
            (Owner::Another, Reason::Looking, false),
            (Owner::Another, Reason::SpokenTo, true),
            (Owner::Nobody, Reason::Looking, true),
            (Owner::Nobody, Reason::SpokenTo, true),
        ] {
            assert_eq!(may_take(owner, reason, true), takes, "{owner:?} {reason:?}");
            assert!(!may_take(owner, reason, false), "without a lease");
        }
    }
}
