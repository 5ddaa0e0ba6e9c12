//! Commands for a bridge that uses HTTP. They go out with the response to a request, and nothing confirms that it arrived. So
//! each stays a row until a later request, to any node. A request that repeats a message of the answered one proves that the
//! response was lost, and gets the command again. Any other request proves after a while that it arrived.

use std::collections::HashSet;

use dikala_entities::{
    BridgeId, CommandId, Millis, Store,
    rows::{ColumnType, json_rows},
};
use dikala_protocol::Command;
use sea_orm::{DbBackend, DbErr, FromQueryResult, Statement, Value};
use serde::Serialize;
use serde_json::json;

use super::{Bridges, remote_nodes::remove};

/// Commands read at once.
const ROWS_MAX: usize = 1_000;
/// Time in which other requests prove nothing about a command in a response: several requests may be under way, and a bridge
/// that lost a response repeats its request.
const ON_ITS_WAY_MS: i64 = 10_000;
/// Stands for a request whose first message has no id.
const NAMELESS: &str = "-";
/// Longer ids are not ids of messages.
const ID_CHARS_MAX: usize = 64;

/// A request of a bridge that uses HTTP.
#[derive(Debug)]
pub struct Poll {
    first: String,
    ids: HashSet<String>,
    began_at: Millis,
}

impl Poll {
    /// `ids` are the ids of its messages in order; `None` for a message without a readable one.
    pub fn new<'a>(ids: impl Iterator<Item = Option<&'a str>>, began_at: Millis) -> Self {
        let id = |id: &str| (id.chars().count() <= ID_CHARS_MAX).then(|| json!(id).to_string());
        let mut ids = ids.map(|text| text.and_then(id)).peekable();
        let first = ids.peek().cloned().flatten();
        Self {
            first: first.unwrap_or_else(|| NAMELESS.to_owned()),
            ids: ids.flatten().collect(),
            began_at,
        }
    }

    fn fate(&self, row: &Row) -> CommandAction {
        match (&row.given_with, row.given_at) {
            (Some(with), _) if self.ids.contains(with) => CommandAction::Give,
            (Some(_), Some(at)) if at.plus_ms(ON_ITS_WAY_MS) < self.began_at => {
                CommandAction::Forget
            }
            (Some(_), _) => CommandAction::Keep,
            (None, _) => CommandAction::Give,
        }
    }
}

#[derive(FromQueryResult)]
struct Row {
    id: CommandId,
    command: String,
    given_with: Option<String>,
    given_at: Option<Millis>,
}

/// The effect of a request on a command in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandAction {
    Give,
    Keep,
    /// The bridge received it.
    Forget,
}

#[derive(FromQueryResult)]
struct CommandIdRow {
    id: CommandId,
}

/// Commands that are queued again on drop unless they were given: the request may be cancelled.
struct UngivenCommands<'a> {
    bridges: &'a Bridges,
    bridge: BridgeId,
    commands: Vec<Command>,
}

impl Drop for UngivenCommands<'_> {
    fn drop(&mut self) {
        if !self.commands.is_empty() {
            let mut presence = self.bridges.present.entry(self.bridge).or_default();
            presence.take_back(std::mem::take(&mut self.commands));
        }
    }
}

impl Bridges {
    /// Takes up to `most` commands for a response, if the bridge has no socket for them.
    pub async fn give(
        &self,
        store: &Store,
        bridge: BridgeId,
        poll: &Poll,
        most: usize,
    ) -> Result<Vec<Command>, DbErr> {
        let presence = self.present.get(&bridge);
        if presence.is_some_and(|presence| presence.has_socket_for_commands()) {
            return Ok(Vec::new());
        }
        let mut given = Vec::new();
        if store.lease().is_some() || self.has_given(bridge) {
            given = self.give_from_table(store, bridge, poll, most).await?;
        }
        let room = most.saturating_sub(given.len());
        let mut taken = UngivenCommands {
            bridges: self,
            bridge,
            commands: self.take_commands(bridge, room),
        };
        match self.write_given(store, bridge, poll, &taken.commands).await {
            Ok(()) => {
                let has: HashSet<CommandId> = given.iter().map(|command| command.id).collect();
                let waiting = std::mem::take(&mut taken.commands).into_iter();
                given.extend(waiting.filter(|command| !has.contains(&command.id)));
            }
            Err(error) => {
                tracing::warn!(%bridge, %error, "could not remove commands from the table; they are sent again with the bridge's next request");
            }
        }
        Ok(given)
    }

    fn has_given(&self, bridge: BridgeId) -> bool {
        let presence = self.present.get(&bridge);
        presence.is_some_and(|presence| presence.has_given())
    }

    fn set_given(&self, bridge: BridgeId, given: bool) {
        self.present.entry(bridge).or_default().set_given(given);
    }

    async fn give_from_table(
        &self,
        store: &Store,
        bridge: BridgeId,
        poll: &Poll,
        most: usize,
    ) -> Result<Vec<Command>, DbErr> {
        let rows = rows(store, bridge).await?;
        self.set_given(bridge, !rows.is_empty());
        let has: HashSet<CommandId> = rows
            .iter()
            .filter(|row| poll.fate(row) == CommandAction::Forget)
            .map(|row| row.id)
            .collect();
        if !has.is_empty() {
            remove(store, &has).await?;
        }
        let wanted = rows
            .into_iter()
            .filter(|row| poll.fate(row) == CommandAction::Give);
        let wanted: Vec<Row> = wanted.take(most).collect();
        let mine = claim(store, poll, &wanted, self.clock.now()).await?;
        let mine = wanted.iter().filter(|row| mine.contains(&row.id));
        // A newer version wrote it: this node cannot execute it.
        Ok(mine
            .filter_map(|row| serde_json::from_str(&row.command).ok())
            .collect())
    }

    /// Stores commands when they are given. A row may exist: its write seemed to fail, its process ended before the response,
    /// or another node just gave it. It is given again with the same id, since it may not have arrived.
    async fn write_given(
        &self,
        store: &Store,
        bridge: BridgeId,
        poll: &Poll,
        commands: &[Command],
    ) -> Result<(), DbErr> {
        #[derive(Serialize)]
        struct NewCommandRow {
            id: CommandId,
            command: String,
        }
        if commands.is_empty() {
            return Ok(());
        }
        // Set before the write, whose outcome may stay unknown.
        self.set_given(bridge, true);
        let new: Vec<NewCommandRow> = commands
            .iter()
            .map(|command| NewCommandRow {
                id: command.id,
                command: json!(command).to_string(),
            })
            .collect();
        let columns = ["id", "command"].map(|name| (name, ColumnType::Text));
        let sql = format!(
            "INSERT INTO bridge_commands (id, bridge_id, command, created_at, given_with, given_at) \
             SELECT id, $2, command, $3, $4, $3 FROM {} WHERE true \
             ON CONFLICT (id) DO UPDATE SET given_with = excluded.given_with, given_at = excluded.given_at RETURNING id",
            json_rows(store.backend(), &columns)
        );
        let values = [
            Value::from(json!(new).to_string()),
            Value::from(bridge.to_string()),
            Value::from(self.clock.now().as_i64()),
            Value::from(poll.first.as_str()),
        ];
        written(store, &sql, values).await.map(drop)
    }
}

async fn rows(store: &Store, bridge: BridgeId) -> Result<Vec<Row>, DbErr> {
    let sql = format!(
        "SELECT id, command, given_with, given_at FROM bridge_commands WHERE bridge_id = $1 ORDER BY id LIMIT {ROWS_MAX}"
    );
    let values = [Value::from(bridge.to_string())];
    Row::find_by_statement(Statement::from_sql_and_values(store.backend(), sql, values))
        .all(store.critical_reader())
        .await
}

/// Assigns commands to this request's response; concurrent requests never both get one. Returns the ids that this one got.
async fn claim(
    store: &Store,
    poll: &Poll,
    wanted: &[Row],
    now: Millis,
) -> Result<HashSet<CommandId>, DbErr> {
    #[derive(Serialize)]
    struct WantedCommandRow<'a> {
        id: CommandId,
        before: &'a str,
    }
    if wanted.is_empty() {
        return Ok(HashSet::new());
    }
    let wanted: Vec<WantedCommandRow<'_>> = wanted
        .iter()
        .map(|row| WantedCommandRow {
            id: row.id,
            before: row.given_with.as_deref().unwrap_or_default(),
        })
        .collect();
    let columns = ["id", "before"].map(|name| (name, ColumnType::Text));
    let sql = format!(
        "UPDATE bridge_commands SET given_with = $2, given_at = $3 FROM {} WHERE bridge_commands.id = rows.id \
         AND COALESCE(bridge_commands.given_with, '') = rows.before RETURNING bridge_commands.id AS id",
        json_rows(store.backend(), &columns)
    );
    let values = [
        Value::from(json!(wanted).to_string()),
        Value::from(poll.first.as_str()),
        Value::from(now.as_i64()),
    ];
    written(store, &sql, values).await
}

async fn written<const N: usize>(
    store: &Store,
    sql: &str,
    values: [Value; N],
) -> Result<HashSet<CommandId>, DbErr> {
    let sql = match store.backend() {
        DbBackend::Postgres => sql.to_owned(),
        _ => sql.replace('$', "?"),
    };
    let statement = Statement::from_sql_and_values(store.backend(), sql, values);
    let given = CommandIdRow::find_by_statement(statement)
        .all(store.writer())
        .await?;
    Ok(given.into_iter().map(|given| given.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn row(given_with: Option<&str>, given_at: Millis) -> Row {
        Row {
            id: CommandId::new(NOW),
            command: String::new(),
            given_with: given_with.map(|id| json!(id).to_string()),
            given_at: given_with.map(|_| given_at),
        }
    }

    #[test]
    fn a_request_says_whether_the_answer_before_it_arrived() {
        let poll = Poll::new(["2", "3"].into_iter().map(Some), NOW);
        let before = NOW.plus_ms(-ON_ITS_WAY_MS - 1);
        for (row, fate) in [
            (row(None, NOW), CommandAction::Give),
            (row(Some("1"), before), CommandAction::Forget),
            (row(Some("3"), before), CommandAction::Give),
            // Two requests at once.
            (row(Some("1"), NOW.plus_ms(1)), CommandAction::Keep),
        ] {
            assert_eq!(poll.fate(&row), fate, "{:?}", row.given_with);
        }
        let nameless = Poll::new([None].into_iter(), NOW);
        let mut given = row(Some("1"), before);
        given.given_with = Some(nameless.first.clone());
        assert_eq!(nameless.fate(&given), CommandAction::Forget);
    }
}
