//! Signs of life in the table, for all nodes. A bridge may be at several nodes at once; the latest counts.

use dikala_entities::{
    BridgeId, Millis, Store, bridge,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait};
use serde::Serialize;

use super::Bridges;

impl Bridges {
    /// Reads the last signs of life that earlier runs and ended nodes stored.
    pub async fn recover(&self, store: &Store) -> Result<(), DbErr> {
        for bridge in bridge::Entity::find().all(store.reader()).await? {
            // A sign of life is never in the future; the wall clock may have been set back.
            if let Some(seen) = bridge.last_seen_at.map(|seen| seen.min(self.clock.now())) {
                self.present.entry(bridge.id).or_default().recover(seen);
            }
        }
        Ok(())
    }

    /// Stores changed signs of life, so that any node can bill calls correctly after a crash.
    pub async fn store_last_seen(&self, store: &Store) -> Result<(), DbErr> {
        #[derive(Serialize)]
        struct Row {
            id: BridgeId,
            seen: i64,
        }
        let signs = self.unstored();
        if signs.is_empty() {
            return Ok(());
        }
        let row = |(id, seen): &(BridgeId, Millis)| Row {
            id: *id,
            seen: seen.as_i64(),
        };
        let rows: Vec<Row> = signs.iter().map(row).collect();
        let backend = store.backend();
        let columns = [("id", ColumnType::Text), ("seen", ColumnType::BigInt)];
        let sql = format!(
            "UPDATE bridges SET last_seen_at = rows.seen FROM {} WHERE bridges.id = rows.id \
             AND COALESCE(bridges.last_seen_at, 0) < rows.seen",
            json_rows(backend, &columns)
        );
        store
            .writer()
            .execute_raw(json_statement(backend, sql, &rows)?)
            .await?;
        self.stored(signs);
        Ok(())
    }

    /// The signs of life that the table does not have.
    pub(super) fn unstored(&self) -> Vec<(BridgeId, Millis)> {
        let present = self.present.iter();
        present
            .filter_map(|presence| Some((*presence.key(), presence.unstored()?)))
            .collect()
    }

    pub(super) fn stored(&self, signs: Vec<(BridgeId, Millis)>) {
        for (bridge, seen) in signs {
            if let Some(mut presence) = self.present.get_mut(&bridge) {
                presence.stored(seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dikala_entities::CredentialHash;
    use dikala_testkit::rows;
    use futures_util::FutureExt;

    use super::*;
    use crate::runtime::clock::{Clock, ManualClock};

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// One node has a socket that nobody closed, the other hears the bridge. Whichever writes last, the latest frame counts, also
    /// for a node that starts then.
    #[actix::test]
    async fn the_latest_frame_at_any_node_counts_and_an_open_socket_is_none() {
        for (_keep, store) in dikala_testkit::both().await {
            let clock = Arc::new(ManualClock::new(BEGAN));
            let bridge = BridgeId::new(BEGAN);
            let row = bridge::Model {
                is_web: false,
                id: bridge,
                name: "one".to_owned(),
                hash: CredentialHash::of("one"),
                created_at: BEGAN,
                last_seen_at: None,
                revoked_at: None,
                node: None,
                connected_at: None,
            };
            rows::insert(store.writer(), row).await;
            let [a, b, later] = [(); 3].map(|()| Bridges::new(clock.clone()));
            let half_open = a.connected(bridge);
            clock.advance_ms(15_000);
            b.seen(bridge);
            for node in [&a, &b] {
                node.store_last_seen(&store).await.expect("is written");
            }
            assert_eq!(a.last_seen(bridge), BEGAN, "it heard nothing since");
            // The same in the other order: what is earlier changes nothing.
            a.seen(bridge);
            clock.advance_ms(15_000);
            b.seen(bridge);
            for node in [&b, &a] {
                node.store_last_seen(&store).await.expect("is written");
            }
            let read = a.read_remote_bridges(&store, "a").await;
            read.expect("is read");
            a.disconnected(&half_open);
            later.recover(&store).await.expect("is read");
            for node in [&a, &b, &later] {
                assert_eq!(node.last_seen(bridge).since(BEGAN), 30_000);
            }
            assert_eq!((a.unstored(), b.unstored()), (Vec::new(), Vec::new()));
        }
    }

    /// It is not the bridge's silence, and no sign of life either.
    #[test]
    fn time_in_which_messages_wait_unread_is_known_and_bills_nothing() {
        let clock = Arc::new(ManualClock::new(BEGAN));
        let bridges = Bridges::new(clock.clone());
        let bridge = BridgeId::new(clock.now());
        let seen_at = clock.now();
        bridges.seen(bridge);
        clock.advance_ms(20_000);
        bridges.not_read(bridge);
        clock.advance_ms(5_000);
        assert_eq!(bridges.unread_ms_since(bridge, seen_at), 20_000);
        assert_eq!(bridges.unread_ms_since(bridge, clock.now()), 0);
        assert_eq!(bridges.last_seen(bridge), seen_at);
    }

    /// During a pause, one bridge closes its socket, one keeps it open and answers pings, and one sends frames without a socket.
    /// All of that waits.
    #[test]
    fn input_read_after_a_pause_counts_for_the_time_before() {
        let clock = Arc::new(ManualClock::new(BEGAN));
        let bridges = Bridges::new(clock.clone());
        let [closes, holds, speaks] = [0, 1, 2].map(|ms| BridgeId::new(BEGAN.plus_ms(ms)));
        let seen = |bridge| bridges.last_seen(bridge).since(BEGAN);
        let looks = || assert!(bridges.attend().now_or_never().is_none());
        let [closed, _held] = [closes, holds].map(|bridge| bridges.connected(bridge));
        bridges.seen(speaks);
        for _ in 0..40 {
            looks();
            clock.advance_ms(250);
        }
        looks();
        clock.advance_ms(8_000);
        assert_eq!([closes, holds, speaks].map(seen), [0; 3]);
        for bridge in [closes, holds, speaks] {
            bridges.seen(bridge);
        }
        bridges.disconnected(&closed);
        let opened = bridges.connected(speaks);
        assert_eq!([closes, holds, speaks].map(seen), [10_000; 3]);
        assert_eq!(bridges.last_seen_of_lost(holds, BEGAN).since(BEGAN), 10_000);
        let unheard = [0, 5_000, 15_000].map(|at| bridges.unheard_ms_since(BEGAN.plus_ms(at)));
        assert_eq!(
            (unheard, bridges.is_settling()),
            ([10_000, 10_000, 5_000], true)
        );
        for _ in 0..8 {
            looks();
            clock.advance_ms(250);
        }
        bridges.seen(holds);
        assert_eq!([closes, holds, speaks].map(seen), [10_000, 20_000, 10_000]);
        clock.advance_ms(500);
        bridges.disconnected(&opened);
        bridges.seen(closes);
        assert_eq!([closes, holds, speaks].map(seen), [20_500, 20_000, 10_000]);
    }
}
