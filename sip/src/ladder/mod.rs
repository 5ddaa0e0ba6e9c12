//! The SIP ladders: the last messages of the last calls, in memory, for operators.
//!
//! A ladder begins when a call is offered, so strangers' messages never displace the ladder of a call. It is bounded in messages
//! and bytes, and so are all ladders together: the oldest calls are forgotten first. [`mod@kept`] removes secrets before anything is
//! stored; [`shown`] reads a stored message, and [`masking`] masks its numbers.

mod kept;
mod masking;
mod shown;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::settings::SipTransport;

use self::kept::kept;

/// Ladders that are kept.
const CALLS_MAX: usize = 10_000;
/// Messages of one call; one more forgets its oldest.
const MESSAGES_MAX: usize = 200;
/// Bytes of all messages of one call, and of all calls. A plain call takes 5 KB.
const BYTES_OF_CALL_MAX: usize = 256 << 10;
const BYTES_MAX: usize = 64 << 20;
/// Call-IDs of one call, one for each leg, and addresses of its peers.
const CALL_IDS_MAX: usize = 16;
const PEERS_MAX: usize = 16;

/// A message of a call, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LadderMessage {
    pub at: Instant,
    /// Sent by this side.
    pub is_sent: bool,
    pub transport: SipTransport,
    /// Our address as the other side sees it, without NAT between us.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The message without its secrets. A message over 8 KB is cut.
    pub text: Box<str>,
}

/// The messages of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ladder {
    /// Oldest first.
    pub messages: Vec<LadderMessage>,
    /// Older messages that were forgotten.
    pub forgotten: u64,
}

/// The socket of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageSocket {
    pub transport: SipTransport,
    pub bound: SocketAddr,
    pub remote: SocketAddr,
}

/// The ladders of an edge.
#[derive(Debug, Default)]
pub(crate) struct Ladders(Mutex<LadderTable>);

#[derive(Debug, Default)]
struct LadderTable {
    /// By the order in which they began.
    ladders: BTreeMap<u64, KeptLadder>,
    by_id: HashMap<String, u64>,
    by_call_id: HashMap<String, u64>,
    begun: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct KeptLadder {
    id: String,
    call_ids: Vec<String>,
    /// Addresses from which its messages came.
    peers: Vec<IpAddr>,
    messages: VecDeque<LadderMessage>,
    forgotten: u64,
    bytes: usize,
}

impl Ladders {
    fn table(&self) -> MutexGuard<'_, LadderTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the ladder of the call with this id of ours, with its INVITE. From now on the messages with this Call-ID belong to it.
    pub fn begin(&self, id: &str, call_id: &str, invite: &[u8], socket: MessageSocket) {
        let invite = message(invite, socket, false);
        let mut table = self.table();
        // The same INVITE again, after the call was answered and is over.
        if let Some(number) = table.by_id.get(id).copied() {
            return table.push(number, invite);
        }
        let number = table.begun;
        table.begun += 1;
        table.by_id.insert(id.to_owned(), number);
        table.ladders.insert(
            number,
            KeptLadder {
                id: id.to_owned(),
                ..KeptLadder::default()
            },
        );
        table.join(number, call_id);
        table.push(number, invite);
    }

    /// Messages with this Call-ID belong to the call with this id, too: they are those of its second leg.
    pub fn join(&self, id: &str, call_id: &str) {
        let mut table = self.table();
        if let Some(number) = table.by_id.get(id).copied() {
            table.join(number, call_id);
        }
    }

    /// True if a call with this Call-ID is kept.
    pub fn has(&self, call_id: &str) -> bool {
        self.table().by_call_id.contains_key(call_id)
    }

    /// Adds a message of the call with this Call-ID, if there is one.
    pub fn add(&self, call_id: &str, bytes: &[u8], socket: MessageSocket, is_sent: bool) {
        if !self.has(call_id) {
            return;
        }
        // Not under the lock, because this is most of the work.
        let message = message(bytes, socket, is_sent);
        let mut table = self.table();
        if let Some(number) = table.by_call_id.get(call_id).copied() {
            table.push(number, message);
        }
    }

    /// Adds a message that we send. A response to an address from which no message of the call came goes to a stranger who knows
    /// its Call-ID, and is left out.
    pub fn sent(&self, bytes: &[u8], socket: MessageSocket) {
        if let Some(call_id) = our_call_id(bytes) {
            self.add(call_id, bytes, socket, true);
        }
    }

    /// The ladder of the call with this id; `None` if the call is forgotten, or never came here. Its local addresses are those of
    /// the sockets, which may be unspecified.
    pub fn read(&self, id: &str) -> Option<Ladder> {
        let table = self.table();
        let ladder = table.ladders.get(table.by_id.get(id)?)?;
        Some(Ladder {
            messages: ladder.messages.iter().cloned().collect(),
            forgotten: ladder.forgotten,
        })
    }

    pub fn forget(&self, id: &str) {
        self.table().forget(id);
    }
}

impl LadderTable {
    fn join(&mut self, number: u64, call_id: &str) {
        let Some(ladder) = self.ladders.get_mut(&number) else {
            return;
        };
        if ladder.call_ids.len() == CALL_IDS_MAX {
            return;
        }
        ladder.call_ids.push(call_id.to_owned());
        ladder.bytes += call_id.len();
        self.bytes += call_id.len();
        self.by_call_id.insert(call_id.to_owned(), number);
    }

    fn push(&mut self, number: u64, mut message: LadderMessage) {
        let Some(ladder) = self.ladders.get_mut(&number) else {
            return;
        };
        let peer = message.remote.ip().to_canonical();
        let is_known = ladder.peers.contains(&peer);
        if message.is_sent && !is_known && message.status().is_some() {
            return;
        }
        if !message.is_sent && !is_known && ladder.peers.len() < PEERS_MAX {
            ladder.peers.push(peer);
        }
        let before = ladder.bytes;
        ladder.bytes += size(&message);
        // Two threads may have read the time in another order.
        let last = ladder.messages.back().map_or(message.at, |last| last.at);
        message.at = message.at.max(last);
        ladder.messages.push_back(message);
        while ladder.messages.len() > MESSAGES_MAX || ladder.bytes > BYTES_OF_CALL_MAX {
            let Some(oldest) = ladder.messages.pop_front() else {
                break;
            };
            ladder.bytes -= size(&oldest);
            ladder.forgotten += 1;
        }
        self.bytes = self.bytes + ladder.bytes - before;
        while self.ladders.len() > CALLS_MAX || self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.ladders.pop_first() else {
                break;
            };
            self.forgot(oldest);
        }
    }

    fn forget(&mut self, id: &str) {
        let number = self.by_id.get(id).copied();
        if let Some(ladder) = number.and_then(|number| self.ladders.remove(&number)) {
            self.forgot(ladder);
        }
    }

    /// Forgets the names of a ladder that was removed. A later call may have its Call-ID by now.
    fn forgot(&mut self, ladder: KeptLadder) {
        self.bytes -= ladder.bytes;
        self.by_id.remove(&ladder.id);
        for call_id in &ladder.call_ids {
            let number = self.by_call_id.get(call_id);
            if number.is_some_and(|number| !self.ladders.contains_key(number)) {
                self.by_call_id.remove(call_id);
            }
        }
    }
}

fn message(bytes: &[u8], socket: MessageSocket, is_sent: bool) -> LadderMessage {
    let MessageSocket {
        transport,
        bound,
        remote,
    } = socket;
    LadderMessage {
        at: Instant::now(),
        is_sent,
        transport,
        local: bound,
        remote,
        text: kept(bytes).into(),
    }
}

fn size(message: &LadderMessage) -> usize {
    size_of::<LadderMessage>() + message.text.len()
}

/// The Call-ID of a message that this side wrote, which has the header's long name.
fn our_call_id(bytes: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"Call-ID: ";
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.starts_with(NAME) || *line == b"\r")?;
    std::str::from_utf8(line.strip_prefix(NAME)?)
        .ok()
        .map(str::trim_end)
}

#[cfg(test)]
mod tests;
