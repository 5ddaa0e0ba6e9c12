//! The arithmetic of leases, and which node may take a call. Two clocks are used and never compared: leases end by
//! the database's clock, and a node stops by its own monotonic clock.

/// Duration of a lease after a renewal, by the database's clock, in milliseconds.
pub const LEASE_MS: i64 = 15_000;
/// A node stops this long before its lease ends, so that work it began is over before another node begins.
const UNUSED_MS: i64 = 3_000;
/// Time from a renewal to the next.
pub(super) const RENEW_EVERY_MS: u64 = 5_000;
/// Time from a failed renewal to the next try.
pub(super) const AGAIN_AFTER_MS: u64 = 250;
/// Time for bridges that were sent away to connect to another node and report there.
const RECONNECT_MS: i64 = 10_000;
/// After an outage of the database, every node has this long to renew its lease before others may end it.
const RETURN_MS: i64 = 10_000;

/// The end of the time in which a node may act, by its own clock. It counts from the renewal's request, because the
/// database's lease began after that.
pub(super) fn acts_until(asked_at: i64) -> i64 {
    asked_at.saturating_add(LEASE_MS - UNUSED_MS)
}

/// The rest of the lease, by the same clock as [`acts_until`], in milliseconds.
pub(super) fn left(acts_until: i64, now: i64) -> i64 {
    acts_until
        .saturating_add(UNUSED_MS)
        .saturating_sub(now)
        .clamp(0, LEASE_MS)
}

/// True if a node that may not act keeps its bridges' sockets, by the same clock.
/// - A node that knows of others drops the sockets, so that bridges go there at once.
/// - A node that never met another may be alone while the database is down; bridges gain nothing by leaving.
/// - Other nodes may have joined since. They count the silence of its bridges, which must report there within
///   `lost_after_ms`.
pub(super) fn keeps_bridges(
    acts_until: i64,
    now: i64,
    has_met_others: bool,
    lost_after_ms: i64,
) -> bool {
    let asked_at = acts_until.saturating_sub(LEASE_MS - UNUSED_MS);
    !has_met_others && now.saturating_sub(asked_at) < lost_after_ms.saturating_sub(RECONNECT_MS)
}

/// True if a node may end another, all by the database's clock: the lease is over, and an outage of the database was
/// not the cause. `answering_since` is when the database began to answer the node that asks.
pub fn may_end(lease_until: i64, now: i64, answering_since: i64) -> bool {
    now > lease_until && now.saturating_sub(answering_since) > RETURN_MS
}

/// The owner of a running call, as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    This,
    /// Another node, which has not been ended.
    Another,
    /// A node that left or was ended.
    Nobody,
}

/// The reason for which a node wants a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The regular search for calls without an owner.
    Looking,
    /// A message for the call arrived here, from its bridge or from a request to end it.
    SpokenTo,
}

/// True if a node may take a call that it does not own.
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
        /// However long a renewal takes and whatever the clocks show, a node has stopped before another may end it.
        /// The clocks' speeds differ by two percent at most.
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
            // The node's own clock, which showed `asked_at` at the request.
            let own_now = asked_at + after * percent / 100;
            let now = true_now + offset;
            let acts = own_now < acts_until(asked_at);
            prop_assert!(!(acts && may_end(lease_until, now, now - answering_for)));
        }

        /// A node that died is ended right after its lease. A node that could not reach the database is given time.
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

    /// A node that joined at the moment of the last renewal may count the silence from then on.
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
