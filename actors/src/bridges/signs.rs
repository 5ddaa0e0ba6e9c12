//! Signs of life in the table, for all nodes. A bridge may be at several nodes at once, so the greatest value of each column
//! wins.

use dikala_entities::{
    BridgeId, Store, bridge,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait};
use serde::Serialize;

use super::{Bridges, presence::Sign};

/// The last frame that any node heard.
const FRAME: &str = "CASE WHEN COALESCE(bridges.last_frame_at, 0) < rows.frame THEN rows.frame ELSE bridges.last_frame_at END";
/// An open socket is a sign of life without a frame. It is withdrawn if the socket turns out to be dead; then the last frame at
/// any node counts. Another node with an open socket of the bridge stores its own sign within a second.
const SEEN: &str = "CASE WHEN COALESCE(bridges.last_seen_at, 0) < rows.seen THEN rows.seen ELSE bridges.last_seen_at END";

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
            frame: i64,
            silent: i64,
        }
        let signs: Vec<(BridgeId, Sign)> = self
            .present
            .iter()
            .filter_map(|presence| {
                let sign = presence.unstored(self.sign_at())?;
                Some((*presence.key(), sign))
            })
            .collect();
        if signs.is_empty() {
            return Ok(());
        }
        let rows: Vec<Row> = signs
            .iter()
            .map(|(id, sign)| Row {
                id: *id,
                seen: sign.seen.as_i64(),
                frame: sign.frame.as_i64(),
                silent: sign.fell_silent.into(),
            })
            .collect();
        let backend = store.backend();
        let source = json_rows(
            backend,
            &[
                ("id", ColumnType::Text),
                ("seen", ColumnType::BigInt),
                ("frame", ColumnType::BigInt),
                ("silent", ColumnType::BigInt),
            ],
        );
        let sql = format!(
            "UPDATE bridges SET last_seen_at = CASE WHEN rows.silent = 1 THEN {FRAME} ELSE {SEEN} END, last_frame_at = {FRAME} \
             FROM {source} WHERE bridges.id = rows.id AND (rows.silent = 1 OR COALESCE(bridges.last_seen_at, 0) < rows.seen \
             OR COALESCE(bridges.last_frame_at, 0) < rows.frame)"
        );
        store
            .writer()
            .execute_raw(json_statement(backend, sql, &rows)?)
            .await?;
        for (bridge, sign) in signs {
            if let Some(mut presence) = self.present.get_mut(&bridge) {
                presence.stored(sign);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dikala_entities::{CredentialHash, Millis};
    use dikala_testkit::rows;

    use super::*;
    use crate::{bridges::SocketEnd, runtime::clock::ManualClock};

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// Two nodes with one clock.
    struct Two {
        store: Store,
        clock: Arc<ManualClock>,
        a: Bridges,
        b: Bridges,
        bridge: BridgeId,
    }

    impl Two {
        async fn on(store: Store) -> Self {
            let clock = Arc::new(ManualClock::new(BEGAN));
            let bridge = BridgeId::new(BEGAN);
            let row = bridge::Model {
                id: bridge,
                name: "one".to_owned(),
                hash: CredentialHash::of("one"),
                created_at: BEGAN,
                last_seen_at: None,
                revoked_at: None,
                node: None,
                last_frame_at: None,
                connected_at: None,
            };
            rows::insert(store.writer(), row).await;
            let [a, b] = [(); 2].map(|()| Bridges::new(clock.clone()));
            Self {
                store,
                clock,
                a,
                b,
                bridge,
            }
        }

        async fn a_writes(&self) {
            self.a.store_last_seen(&self.store).await.expect("written");
        }

        async fn b_writes(&self) {
            self.b.store_last_seen(&self.store).await.expect("written");
        }

        /// The stored times of the last sign of life and the last frame, in milliseconds after the start.
        async fn stored(&self) -> [i64; 2] {
            let row = bridge::Entity::find_by_id(self.bridge);
            let row = row.one(self.store.reader()).await.expect("is read");
            let row = row.expect("is there");
            [row.last_seen_at, row.last_frame_at].map(|at| at.map_or(-1, |at| at.since(BEGAN)))
        }

        /// The time to which A would bill, after reading the table.
        async fn billed_by_a(&self) -> i64 {
            let read = self.a.read_remote_bridges(&self.store, "a").await;
            read.expect("is read");
            self.a.last_seen(self.bridge).at.since(BEGAN)
        }
    }

    /// A's socket is dead, and A has not noticed. Every second it stores that the bridge is there, later than B heard it.
    #[actix::test]
    async fn a_frame_at_one_node_counts_while_another_has_a_half_open_socket() {
        for (_keep, store) in dikala_testkit::both().await {
            let two = Two::on(store).await;
            let half_open = two.a.connected(two.bridge);
            two.a_writes().await;
            two.clock.advance_ms(30_000);
            two.b.seen(two.bridge);
            two.clock.advance_ms(500);
            two.a_writes().await;
            two.b_writes().await;
            assert_eq!(two.stored().await, [30_500, 30_000]);
            two.clock.advance_ms(14_500);
            two.a.disconnected(&half_open, SocketEnd::Silent);
            assert_eq!(two.billed_by_a().await, 30_500, "as the table has it still");
            two.a_writes().await;
            assert_eq!(two.stored().await, [30_000, 30_000]);
            assert_eq!(two.billed_by_a().await, 30_000);
        }
    }

    /// The same with a socket at B that the bridge closed: it was there until then.
    #[actix::test]
    async fn a_close_at_one_node_counts_while_another_has_a_half_open_socket() {
        for (_keep, store) in dikala_testkit::both().await {
            let two = Two::on(store).await;
            let half_open = two.a.connected(two.bridge);
            let closed = two.b.connected(two.bridge);
            two.clock.advance_ms(20_000);
            two.b.disconnected(&closed, SocketEnd::Closed);
            two.clock.advance_ms(500);
            two.a_writes().await;
            two.b_writes().await;
            two.a.disconnected(&half_open, SocketEnd::Silent);
            two.a_writes().await;
            assert_eq!(two.stored().await, [20_000, 20_000]);
        }
    }

    /// A's process was paused, and finds its socket closed afterwards.
    #[actix::test]
    async fn a_socket_whose_end_nobody_noticed_counts_until_it_was_last_written_down() {
        for (_keep, store) in dikala_testkit::both().await {
            let two = Two::on(store).await;
            let socket = two.a.connected(two.bridge);
            two.clock.advance_ms(1_000);
            two.a_writes().await;
            two.clock.advance_ms(28_000);
            two.a.disconnected(&socket, SocketEnd::Unnoticed);
            two.a_writes().await;
            assert_eq!(two.stored().await, [1_000, 0]);
            assert_eq!(two.billed_by_a().await, 1_000);
        }
    }

    /// A node that hears less than another withdraws nothing, in any order of writes.
    #[actix::test]
    async fn no_column_goes_back_but_for_silence() {
        for (_keep, store) in dikala_testkit::both().await {
            let two = Two::on(store).await;
            let socket = two.a.connected(two.bridge);
            two.clock.advance_ms(1_000);
            two.a_writes().await;
            assert_eq!(two.stored().await, [1_000, 0]);
            two.clock.advance_ms(1_000);
            two.b.seen(two.bridge);
            two.clock.advance_ms(1_000);
            two.a.seen(two.bridge);
            two.a_writes().await;
            two.b_writes().await;
            assert_eq!(two.stored().await, [3_000, 3_000]);
            // B hears it again after A did, and before A notices the silence.
            two.clock.advance_ms(1_000);
            two.b.seen(two.bridge);
            two.clock.advance_ms(1_000);
            two.a.disconnected(&socket, SocketEnd::Silent);
            two.a_writes().await;
            assert_eq!(two.stored().await, [3_000, 3_000]);
            two.b_writes().await;
            assert_eq!(two.stored().await, [4_000, 4_000]);
        }
    }
}
