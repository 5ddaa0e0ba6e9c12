//! A simulated lease keeper, with the table of nodes in memory. The real [`Membership`] and [`lease`](super::lease)
//! decide when a node may act.

use std::sync::Arc;

use super::{
    Membership, NodeIdentity,
    lease::{AGAIN_AFTER_MS, LEASE_MS, RENEW_EVERY_MS, may_end},
    table::Renewal,
};
use crate::runtime::{
    clock::Clock,
    simulated::{
        clock::NodeClock,
        tables::{Flaw, Tables},
        wire::{NoAnswer, SimulatedNetwork},
    },
};

/// A node that is not in the table yet.
pub(crate) fn member(clock: &Arc<NodeClock>) -> Membership {
    let identity = NodeIdentity {
        name: Arc::from("node"),
        address: String::new(),
        version: "",
        knows_step: 0,
    };
    let own = Arc::clone(clock);
    let own_time = Box::new(move || own.own_time());
    Membership::new("", identity, Some(clock.clone()), own_time)
}

/// Enters the table with this id.
pub(crate) async fn enter(
    member: &Membership,
    wire: &SimulatedNetwork<Tables>,
    clock: &NodeClock,
    id: String,
) -> Result<(), NoAnswer> {
    let asked_at = member.own_now();
    let entering = id.clone();
    let enter = move |tables: &mut Tables, now: i64| {
        tables.nodes.insert(entering, now + LEASE_MS);
        now
    };
    let entered_at = wire.ask("enter", enter).await?;
    member.entered(&id, Some(asked_at), clock.now(), entered_at);
    Ok(())
}

/// Renews the lease until the future is dropped. If others end the node, it rejoins with the next of `names`.
pub(crate) async fn keep(
    member: Membership,
    wire: SimulatedNetwork<Tables>,
    clock: Arc<NodeClock>,
    mut names: impl FnMut() -> String,
) {
    let mut pause = RENEW_EVERY_MS;
    loop {
        clock.sleep_ms(i64::try_from(pause).unwrap_or(0)).await;
        let asked_at = member.own_now();
        let id = member.id();
        let renew = move |tables: &mut Tables, now: i64| {
            let nodes = i64::try_from(tables.nodes.len()).unwrap_or(0);
            let until = tables.nodes.get_mut(&*id)?;
            *until = now + LEASE_MS;
            Some(Renewal {
                now,
                nodes,
                terms: Default::default(),
            })
        };
        pause = match wire.ask("renew", renew).await {
            Ok(Some(renewed)) => {
                member.renewed(asked_at, &renewed);
                RENEW_EVERY_MS
            }
            Ok(None) => {
                member.ended();
                match enter(&member, &wire, &clock, names()).await {
                    Ok(()) => {
                        member.turned();
                        RENEW_EVERY_MS
                    }
                    Err(NoAnswer) => AGAIN_AFTER_MS,
                }
            }
            Err(NoAnswer) => {
                member.not_renewed();
                AGAIN_AFTER_MS
            }
        };
    }
}

/// Nodes that may be ended: those whose lease is over and those in `gone`, as they were read.
pub(crate) async fn lost(
    member: &Membership,
    wire: &SimulatedNetwork<Tables>,
    gone: &[String],
) -> Result<Vec<(String, i64)>, NoAnswer> {
    let all = |tables: &mut Tables, now: i64| (tables.nodes.clone(), now, tables.flaw);
    let (all, mut now, flaw) = wire.ask("nodes", all).await?;
    if flaw == Some(Flaw::LeasesCutShort) {
        now += 6_000;
    }
    member.found(all.len());
    let others = all.into_iter().filter(|(id, _)| !member.is(id));
    let answering_since = member.answering_since();
    let lost =
        others.filter(|(id, until)| gone.contains(id) || may_end(*until, now, answering_since));
    Ok(lost.collect())
}

/// Ends a node unless it renewed its lease meanwhile.
pub(crate) fn end(tables: &mut Tables, id: &str, lease_until: i64) -> bool {
    let ends = tables
        .nodes
        .get(id)
        .is_some_and(|until| *until <= lease_until);
    if ends {
        tables.nodes.remove(id);
    }
    ends
}
