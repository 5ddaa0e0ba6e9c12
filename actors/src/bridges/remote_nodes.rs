//! Bridges at other nodes. The table `bridges` names the node of each bridge's newest socket and its last sign of life. A
//! command for a bridge elsewhere is a row until the bridge has confirmed it.
//!
//! The registry's tick does this; nothing waits for it.

use std::collections::HashSet;

use dikala_entities::{
    BridgeId, CommandId, Millis, Store,
    rows::{ColumnType, is_one_of, json_rows, json_statement},
};
use dikala_protocol::Command;
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Statement, Value};
use serde::Serialize;
use serde_json::json;

use super::{BridgeSocket, Bridges, presence::RemotePresence};
use crate::nodes::{lease::LEASE_MS, table::now_sql};

/// Commands read from the table at once.
const COMMANDS_MAX: usize = 1_000;
/// The minimum that is left of the lease of a node that renewed it within seven seconds, in milliseconds; nodes renew every
/// five. A later node may be dead, though it cannot be ended yet. Commands do not wait for it if there is another socket. A
/// bridge that gets a command twice knows it by its id.
pub(super) const PUNCTUAL_MS: i64 = LEASE_MS - 7_000;

/// A bridge's row, with the state of its node.
#[derive(FromQueryResult)]
pub(super) struct RemoteBridgeRow {
    pub(super) id: BridgeId,
    pub(super) last_seen_at: Option<Millis>,
    pub(super) node: Option<String>,
    /// The node of its newest socket has not been ended.
    pub(super) is_alive: bool,
    /// The node renewed its lease recently, by [`PUNCTUAL_MS`].
    pub(super) is_punctual: bool,
}

#[derive(FromQueryResult)]
struct CommandRow {
    bridge_id: BridgeId,
    command: String,
}

impl Bridges {
    /// Reads which bridges are at other nodes, and when they were seen there.
    pub async fn read_remote_bridges(&self, store: &Store, me: &str) -> Result<(), DbErr> {
        // Leases are in the database's time, and this node's clock may be off.
        let sql = format!(
            "SELECT b.id, b.last_seen_at, b.node, (n.id IS NOT NULL) AS is_alive, \
                (n.id IS NOT NULL AND n.lease_until > {} + $1) AS is_punctual FROM bridges b \
             LEFT JOIN nodes n ON n.id = b.node WHERE b.revoked_at IS NULL",
            now_sql(store.backend())
        );
        let values = [Value::from(PUNCTUAL_MS)];
        let statement = Statement::from_sql_and_values(store.backend(), sql, values);
        let rows = RemoteBridgeRow::find_by_statement(statement)
            .all(store.reader())
            .await?;
        rows.into_iter().for_each(|row| self.heard(row, me));
        Ok(())
    }

    /// Applies a row of the table.
    pub(super) fn heard(&self, row: RemoteBridgeRow, me: &str) {
        let has_node = row.is_alive && row.node.is_some();
        let is_connected = has_node && row.node.as_deref() != Some(me);
        let remote = RemotePresence {
            is_connected,
            takes_commands: is_connected && row.is_punctual,
            // A sign of life is never in the future.
            last_seen: row
                .last_seen_at
                .unwrap_or(Millis::MIN)
                .min(self.clock.now()),
        };
        let mut presence = self.present.entry(row.id).or_default();
        presence.set_remote(remote, has_node);
    }

    /// No other nodes are left, or this node cannot know of them.
    pub fn forget_remote_nodes(&self) {
        for mut presence in self.present.iter_mut() {
            presence.alone();
        }
    }

    /// Stores that the bridge's newest socket is here, before the bridge learns that it is open. Successive sockets of a bridge
    /// are ordered by these writes.
    pub async fn announce(
        &self,
        store: &Store,
        me: &str,
        socket: &BridgeSocket,
    ) -> Result<(), DbErr> {
        let sql = "UPDATE bridges SET node = $1, connected_at = \
                   CASE WHEN connected_at >= $2 THEN connected_at + 1 ELSE $2 END WHERE id = $3";
        let values = [
            Value::from(me),
            Value::from(socket.opened_at.as_i64()),
            Value::from(socket.bridge.to_string()),
        ];
        let statement = Statement::from_sql_and_values(store.backend(), sql, values);
        store.writer().execute_raw(statement).await?;
        if let Some(mut presence) = self.present.get_mut(&socket.bridge)
            && presence.newest() == Some(socket.number)
        {
            presence.published(Some(socket.number));
        }
        Ok(())
    }

    /// False if another node has a newer socket of the bridge. If the database does not answer, the command goes to the socket
    /// here: an older one is better than none.
    pub async fn is_newest(&self, store: &Store, me: &str, socket: &BridgeSocket) -> bool {
        let sql = format!(
            "SELECT 1 AS found FROM bridges JOIN nodes ON nodes.id = bridges.node WHERE bridges.id = $1 AND nodes.id <> $2 \
                AND nodes.lease_until > {} + $3",
            now_sql(store.backend())
        );
        let values = [
            Value::from(socket.bridge.to_string()),
            Value::from(me),
            Value::from(PUNCTUAL_MS),
        ];
        let statement = Statement::from_sql_and_values(store.backend(), sql, values);
        match store.critical_reader().query_one_raw(statement).await {
            Ok(None) | Err(_) => true,
            Ok(Some(_)) => {
                if let Some(mut presence) = self.present.get_mut(&socket.bridge) {
                    presence.mark_superseded();
                }
                false
            }
        }
    }

    /// Stores which bridges have, or no longer have, their newest socket here. A socket opened later at another live node keeps
    /// its entry. Returns false if nothing changed.
    pub async fn publish(&self, store: &Store, me: &str) -> Result<bool, DbErr> {
        #[derive(Serialize)]
        struct Row {
            id: BridgeId,
            node: Option<String>,
            since: i64,
        }
        let mut changed: Vec<(BridgeId, Option<u64>)> = Vec::new();
        let mut rows = Vec::new();
        for presence in &self.present {
            if presence.unpublished().is_some() {
                let since = presence.newest_since();
                changed.push((*presence.key(), presence.newest()));
                rows.push(Row {
                    id: *presence.key(),
                    node: since.is_some().then(|| me.to_owned()),
                    since: since.unwrap_or(Millis::MIN).as_i64(),
                });
            }
        }
        if rows.is_empty() {
            return Ok(false);
        }
        let columns = [
            ("id", ColumnType::Text),
            ("node", ColumnType::Text),
            ("since", ColumnType::BigInt),
        ];
        let sql = format!(
            "UPDATE bridges SET node = rows.node, connected_at = CASE WHEN rows.node IS NULL THEN bridges.connected_at \
             ELSE rows.since END FROM {} WHERE bridges.id = rows.id AND (bridges.node = $2 OR rows.node IS NOT NULL AND \
             (bridges.node IS NULL OR COALESCE(bridges.connected_at, 0) <= rows.since \
             OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = bridges.node)))",
            json_rows(store.backend(), &columns)
        );
        let rows = serde_json::to_string(&rows).map_err(|error| DbErr::Json(error.to_string()))?;
        let values = [Value::from(rows), Value::from(me)];
        let statement = Statement::from_sql_and_values(store.backend(), sql, values);
        store.writer().execute_raw(statement).await?;
        for (bridge, newest) in changed {
            if let Some(mut presence) = self.present.get_mut(&bridge) {
                presence.published(newest);
            }
        }
        Ok(true)
    }

    /// Publishes all sockets again after this node got a new id: the table names the old one.
    pub fn republish(&self) {
        for mut presence in self.present.iter_mut() {
            presence.published(None);
        }
    }

    /// Stores commands whose bridge is elsewhere. Returns false if there were none.
    pub async fn send_to_remote_nodes(&self, store: &Store) -> Result<bool, DbErr> {
        #[derive(Serialize)]
        struct Row {
            id: CommandId,
            bridge_id: BridgeId,
            command: String,
            created_at: i64,
        }
        let now = self.clock.now().as_i64();
        let mut taken: Vec<(BridgeId, Vec<Command>)> = Vec::new();
        for mut presence in self.present.iter_mut() {
            let commands = presence.take_for_remote();
            if !commands.is_empty() {
                taken.push((*presence.key(), commands));
            }
        }
        let rows: Vec<Row> = taken
            .iter()
            .flat_map(|(bridge, commands)| commands.iter().map(move |command| (*bridge, command)))
            .map(|(bridge, command)| Row {
                id: command.id,
                bridge_id: bridge,
                command: json!(command).to_string(),
                created_at: now,
            })
            .collect();
        if rows.is_empty() {
            return Ok(false);
        }
        let columns = [
            ("id", ColumnType::Text),
            ("bridge_id", ColumnType::Text),
            ("command", ColumnType::Text),
            ("created_at", ColumnType::BigInt),
        ];
        let sql = format!(
            "INSERT INTO bridge_commands (id, bridge_id, command, created_at) \
             SELECT id, bridge_id, command, created_at FROM {} WHERE true ON CONFLICT (id) DO NOTHING",
            json_rows(store.backend(), &columns)
        );
        let written = store
            .writer()
            .execute_raw(json_statement(store.backend(), sql, &rows)?)
            .await;
        if written.is_err() {
            for (bridge, commands) in taken {
                let mut presence = self.present.entry(bridge).or_default();
                presence.take_back(commands);
                self.hurry(&presence);
            }
        }
        written.map(|_| true)
    }

    /// Removes delivered commands from the table, and reads those for sockets that are here.
    pub async fn receive(&self, store: &Store) -> Result<(), DbErr> {
        self.remove_handed_over(store).await?;
        let here: Vec<BridgeId> = self
            .present
            .iter()
            .filter(|presence| presence.is_newest_here())
            .map(|presence| *presence.key())
            .collect();
        for command in commands_for(store, &here).await? {
            let (bridge, command) = command;
            self.present
                .entry(bridge)
                .or_default()
                .send_from_table(command);
        }
        Ok(())
    }

    async fn remove_handed_over(&self, store: &Store) -> Result<(), DbErr> {
        let mut handed_over: Vec<(BridgeId, Vec<CommandId>)> = Vec::new();
        for mut presence in self.present.iter_mut() {
            let commands = presence.take_handed_over();
            if !commands.is_empty() {
                handed_over.push((*presence.key(), commands));
            }
        }
        let ids: HashSet<CommandId> = handed_over
            .iter()
            .flat_map(|(_, commands)| commands.iter().copied())
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let removed = remove(store, &ids).await;
        for (bridge, commands) in handed_over {
            if let Some(mut presence) = self.present.get_mut(&bridge) {
                match &removed {
                    Ok(()) => presence.removed(&commands),
                    Err(_) => commands
                        .into_iter()
                        .for_each(|command| presence.handed_over(command)),
                }
            }
        }
        removed
    }
}

async fn commands_for(
    store: &Store,
    bridges: &[BridgeId],
) -> Result<Vec<(BridgeId, Command)>, DbErr> {
    if bridges.is_empty() {
        return Ok(Vec::new());
    }
    let backend = store.backend();
    let sql = format!(
        "SELECT bridge_id, command FROM bridge_commands WHERE {} ORDER BY id LIMIT {COMMANDS_MAX}",
        is_one_of(backend, "bridge_id", 1)
    );
    let bridges = [Value::from(json!(bridges).to_string())];
    let statement = Statement::from_sql_and_values(backend, sql, bridges);
    let rows = CommandRow::find_by_statement(statement)
        .all(store.critical_reader())
        .await?;
    let read = |row: CommandRow| {
        let command = serde_json::from_str(&row.command);
        // A newer version wrote it: this node cannot execute it.
        command.ok().map(|command| (row.bridge_id, command))
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

pub(super) async fn remove(store: &Store, ids: &HashSet<CommandId>) -> Result<(), DbErr> {
    let backend = store.backend();
    let sql = format!(
        "DELETE FROM bridge_commands WHERE {}",
        is_one_of(backend, "id", 1)
    );
    let ids = [Value::from(json!(ids).to_string())];
    store
        .writer()
        .execute_raw(Statement::from_sql_and_values(backend, sql, ids))
        .await
        .map(drop)
}

/// Deletes commands that no bridge fetched. Their calls are long over.
pub async fn forget_commands(store: &Store, before: Millis) -> Result<(), DbErr> {
    let sql = "DELETE FROM bridge_commands WHERE created_at < $1";
    let values = [Value::from(before.as_i64())];
    store
        .writer()
        .execute_raw(Statement::from_sql_and_values(store.backend(), sql, values))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dikala_entities::{CallId, CredentialHash, HangupReason, NodeId, bridge, node};
    use dikala_protocol::CommandKind;
    use dikala_testkit::rows;
    use futures_util::FutureExt;

    use super::*;
    use crate::runtime::clock::{Clock, ManualClock};

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// A bridge has its newest socket at a dying node and an older one here. Commands come here long before that node can be
    /// ended. Until then the bridge counts as connected there.
    #[actix::test]
    async fn commands_do_not_wait_for_a_node_that_is_late_with_its_lease() {
        for (_keep, store) in dikala_testkit::both().await {
            let clock = Arc::new(ManualClock::new(BEGAN));
            let here = Bridges::new(clock.clone());
            let (bridge, dead) = (BridgeId::new(BEGAN), NodeId::new(BEGAN));
            let there = node::Model {
                id: dead,
                name: "dead".to_owned(),
                address: String::new(),
                process: String::new(),
                version: String::new(),
                started_at: BEGAN,
                lease_until: BEGAN.plus_ms(LEASE_MS),
                calls: 0,
                bridges: 1,
                ahead_ms: 0,
            };
            rows::insert(store.writer(), there).await;
            let row = bridge::Model {
                is_web: false,
                id: bridge,
                name: "one".to_owned(),
                hash: CredentialHash::of("one"),
                created_at: BEGAN,
                last_seen_at: Some(BEGAN),
                revoked_at: None,
                node: Some(dead.to_string()),
                connected_at: Some(BEGAN),
            };
            rows::insert(store.writer(), row).await;
            let older = here.connected(bridge);
            for (late_ms, is_here) in [(0, false), (3_000, false), (7_001, true)] {
                let until = format!(
                    "UPDATE nodes SET lease_until = {} + {LEASE_MS} - {late_ms}",
                    now_sql(store.backend())
                );
                store
                    .writer()
                    .execute_unprepared(&until)
                    .await
                    .expect("is late");
                here.read_remote_bridges(&store, "here")
                    .await
                    .expect("is read");
                let (reason, call) = (HangupReason::Requested, CallId::new(clock.now()));
                here.command(bridge, call, CommandKind::Hangup { reason });
                let taken = here.next_command(&older).now_or_never();
                assert_eq!(taken.is_some(), is_here, "{late_ms} ms late");
                assert_eq!(here.is_newest(&store, "here", &older).await, is_here);
            }
            here.disconnected(&older);
            assert!(here.is_connected(bridge), "that node is not ended");
        }
    }
}
