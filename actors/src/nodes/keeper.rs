//! Renews this node's lease, over a dedicated connection. A node that cannot renew stops acting by itself. A node
//! that others ended rejoins with a new id.

use std::time::Duration;

use dikala_entities::Store;

use super::{
    lease::{AGAIN_AFTER_MS, RENEW_EVERY_MS},
    membership::Membership,
    table::{self, NodeLoad},
};

/// Minimum pause between two renewals, however many callers wait for one.
const AT_LEAST: Duration = Duration::from_millis(50);

/// Renews the lease until the future is dropped.
pub async fn keep(member: Membership, store: Store, load: impl Fn() -> NodeLoad) {
    let Some(lease) = store.lease() else {
        return tell(&member, &store, load).await;
    };
    let mut pause = RENEW_EVERY_MS;
    let mut is_renewed = true;
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            () = member.wanted() => tokio::time::sleep(AT_LEAST).await,
        }
        if member.has_left() {
            return;
        }
        let asked_at = member.own_now();
        pause = match table::renew(lease, &member.id(), load(), member.ahead_ms()).await {
            Ok(Some(renewed)) => {
                member.renewed(asked_at, &renewed);
                is_renewed = true;
                RENEW_EVERY_MS
            }
            Ok(None) if member.has_left() => return,
            Ok(None) => {
                if member.ended() {
                    tracing::error!(node = %member.id(), "this node lost its lease, and others took what it had; it comes back as a new one");
                }
                come_back(&member, &store).await
            }
            Err(error) => {
                member.not_renewed();
                let left_ms = member.lease_left_ms();
                // A long outage is logged once.
                if is_renewed {
                    tracing::warn!(%error, left_ms, "the lease of this node was not renewed; trying again until it is");
                } else {
                    tracing::debug!(%error, left_ms, "the lease of this node was not renewed");
                }
                is_renewed = false;
                AGAIN_AFTER_MS
            }
        };
    }
}

/// On SQLite no node can be ended; this updates the row for commands that read it.
async fn tell(member: &Membership, store: &Store, load: impl Fn() -> NodeLoad) {
    while !member.has_left() {
        match table::renew(store.writer(), &member.id(), load(), member.ahead_ms()).await {
            Ok(Some(renewed)) => member.heed(&renewed),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "could not store this node's counts of calls and bridges")
            }
        }
        tokio::time::sleep(Duration::from_millis(RENEW_EVERY_MS)).await;
    }
}

async fn come_back(member: &Membership, store: &Store) -> u64 {
    match member.enter(store).await {
        Ok(()) => {
            member.turned();
            RENEW_EVERY_MS
        }
        Err(error) => {
            tracing::warn!(%error, "could not rejoin as a new node; trying again");
            AGAIN_AFTER_MS
        }
    }
}
