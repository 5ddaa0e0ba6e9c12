//! A network link to PostgreSQL that can fall silent (data are swallowed without an error) or be cut, and that
//! counts round trips.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use dikala_testkit::StoreKind;

use super::{
    server::Installation,
    world::{TestWorld, WorldSetup},
};

/// A proxy between client and server. Connections are served on threads until the process ends.
#[derive(Clone, Debug)]
pub struct DatabaseLink {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of connections so far.
    made: AtomicUsize,
    /// Connections with smaller numbers are silent.
    frozen: AtomicUsize,
    /// All connections are silent.
    dark: AtomicBool,
    to_lose: Mutex<Option<WantedLoss>>,
    /// Number of connections that fell silent at a commit.
    lost: AtomicUsize,
    /// Number of `ReadyForQuery` messages, one per round trip of a client.
    rounds: AtomicUsize,
    /// All connections are cut after this many round trips.
    cut_after: Mutex<Option<usize>>,
    /// Both ends of each open connection.
    sockets: Mutex<Vec<Weak<TcpStream>>>,
}

/// The lost part of a commit; everything after it is lost, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostPart {
    /// The commit never arrives.
    Commit,
    /// The commit happens, but its answer is lost.
    Answer,
}

/// Loses a part of the next transaction that contains a text.
#[derive(Debug, PartialEq, Eq)]
struct WantedLoss {
    text: String,
    lost: LostPart,
    /// A single statement is the transaction.
    is_statement: bool,
}

#[derive(Debug)]
struct Connection {
    number: usize,
    silent: AtomicBool,
}

impl State {
    /// Ends all connections and swallows the data of new ones.
    fn cut(&self) {
        self.dark.store(true, SeqCst);
        for socket in self
            .sockets
            .lock()
            .unwrap()
            .drain(..)
            .filter_map(|it| it.upgrade())
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn is_silent(&self, connection: &Connection) -> bool {
        self.dark.load(SeqCst)
            || connection.silent.load(SeqCst)
            || connection.number < self.frozen.load(SeqCst)
    }
}

/// Parses the server's messages: one byte for the kind and four for the length, which includes itself. A client
/// that asked for TLS first receives a single byte that denies it.
#[derive(Default)]
struct Rounds {
    began: bool,
    head: Vec<u8>,
    /// Bytes left of the current message.
    left: usize,
}

impl Rounds {
    /// Counts `ReadyForQuery` messages in consecutive data.
    fn count(&mut self, sent: &[u8]) -> usize {
        let (mut count, mut sent) = (0, sent);
        if !std::mem::replace(&mut self.began, true) {
            sent = sent.strip_prefix(b"N").unwrap_or(sent);
        }
        while !sent.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(sent.len());
                self.left -= passed;
                sent = &sent[passed..];
                continue;
            }
            self.head.push(sent[0]);
            sent = &sent[1..];
            if let [kind, length @ ..] = self.head.as_slice()
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                count += usize::from(*kind == b'Z');
                self.left = u32::from_be_bytes(length) as usize - 4;
                self.head.clear();
            }
        }
        count
    }
}

/// Parses the client's data.
#[derive(Default)]
struct Watch {
    /// The end of the previous data: a text may arrive in two pieces.
    before: Vec<u8>,
    /// True between `BEGIN` and `COMMIT` or `ROLLBACK`.
    is_in_transaction: bool,
    /// True if the current transaction contains the text.
    is_meant: bool,
}

impl Watch {
    /// Returns the part to lose if the data contain the commit in question.
    fn sees(&mut self, sent: &[u8], to_lose: &Mutex<Option<WantedLoss>>) -> Option<LostPart> {
        let has = |text: &[u8]| {
            let before = &self.before[self.before.len().saturating_sub(text.len() - 1)..];
            let all = [before, sent].concat();
            all.windows(text.len()).any(|window| window == text)
        };
        let [begins, commits, rolls_back] = [&b"BEGIN"[..], b"COMMIT\0", b"ROLLBACK\0"].map(has);
        let mut to_lose = to_lose.lock().unwrap();
        let has_text = to_lose
            .as_ref()
            .is_some_and(|loss| has(loss.text.as_bytes()));
        self.is_in_transaction = (self.is_in_transaction || begins) && !commits && !rolls_back;
        self.is_meant = !begins && self.is_meant || has_text;
        self.before = sent.to_vec();
        let is_lost = |loss: &mut WantedLoss| match loss.is_statement {
            true => has_text && !self.is_in_transaction && !commits,
            false => self.is_meant && commits,
        };
        to_lose.take_if(is_lost).map(|loss| loss.lost)
    }
}

/// A world whose server reaches PostgreSQL over a link; `None` if PostgreSQL is not installed.
pub async fn linked(setup: WorldSetup) -> Option<(TestWorld, DatabaseLink)> {
    let mut installation = Installation::migrated(StoreKind::Postgres)?;
    let url = installation.store.url.clone();
    let port = url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
    let link = DatabaseLink::to(port.parse().unwrap());
    installation.set("database.url", &url.replace(port, &link.port.to_string()));
    installation.set("bridge.lost_after_seconds", "600");
    Some((TestWorld::on(installation, setup).await, link))
}

impl DatabaseLink {
    /// A link to a port of this machine.
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let link = Self {
            port,
            state: state.clone(),
        };
        thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                if state.dark.load(SeqCst) {
                    // The server receives nothing, either.
                    state.made.fetch_add(1, SeqCst);
                    thread::spawn(move || io::copy(&mut client, &mut io::sink()));
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let connection = Arc::new(Connection {
                    number: state.made.fetch_add(1, SeqCst),
                    silent: AtomicBool::new(false),
                });
                let [client, server] = [client, server].map(Arc::new);
                let mut sockets = state.sockets.lock().unwrap();
                sockets.retain(|socket| socket.strong_count() > 0);
                sockets.extend([&client, &server].map(Arc::downgrade));
                drop(sockets);
                let up = (&client, &server, Side::Client(Watch::default()));
                let down = (&server, &client, Side::Server(Rounds::default()));
                for (from, to, watch) in [up, down] {
                    let (from, to) = (from.clone(), to.clone());
                    let (state, connection) = (state.clone(), connection.clone());
                    thread::spawn(move || pass(&from, &to, &state, &connection, watch));
                }
            }
        });
        link
    }

    /// Silences all current connections for good; new ones work.
    pub fn freeze_connections(&self) {
        self.state
            .frozen
            .store(self.state.made.load(SeqCst), SeqCst);
    }

    /// Silences all connections, including new ones.
    pub fn go_dark(&self) {
        self.state.dark.store(true, SeqCst);
    }

    /// New connections work; earlier ones stay silent.
    pub fn light_up(&self) {
        self.freeze_connections();
        *self.state.cut_after.lock().unwrap() = None;
        self.state.dark.store(false, SeqCst);
    }

    /// Loses the commit, or its answer, of the next transaction with this text, and silences the connection.
    pub fn lose(&self, text: &str, lost: LostPart) {
        self.want(text, lost, false);
    }

    /// Loses the next statement outside of a transaction with this text, or its answer, and silences the connection. No read
    /// may contain the text.
    pub fn lose_statement(&self, text: &str, lost: LostPart) {
        self.want(text, lost, true);
    }

    fn want(&self, text: &str, lost: LostPart, is_statement: bool) {
        let wanted = WantedLoss {
            text: text.to_owned(),
            lost,
            is_statement,
        };
        let before = self.state.to_lose.lock().unwrap().replace(wanted);
        assert_eq!(before, None, "nothing was lost yet");
    }

    /// Number of commits of which a part was lost.
    pub fn lost(&self) -> usize {
        self.state.lost.load(SeqCst)
    }

    /// Number of round trips on all connections.
    pub fn rounds(&self) -> usize {
        self.state.rounds.load(SeqCst)
    }

    /// Cuts all connections after this many further round trips, the last of which is still answered; new ones are
    /// silent.
    pub fn cut_after(&self, rounds: usize) {
        let after = self.rounds() + rounds;
        *self.state.cut_after.lock().unwrap() = Some(after);
        if rounds == 0 {
            self.state.cut();
        }
    }

    /// Number of connections so far.
    pub fn made(&self) -> usize {
        self.state.made.load(SeqCst)
    }
}

/// The sender of the forwarded data.
enum Side {
    Client(Watch),
    Server(Rounds),
}

fn pass(
    mut from: &TcpStream,
    mut to: &TcpStream,
    state: &State,
    connection: &Connection,
    mut side: Side,
) {
    let mut buffer = [0; 16 << 10];
    let mut swallowed = false;
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        // Once data are lost, the rest is meaningless, and the close is not forwarded.
        swallowed |= state.is_silent(connection);
        match &mut side {
            Side::Client(watch) => {
                if let Some(lost) = watch.sees(&buffer[..read], &state.to_lose) {
                    // Set before forwarding, so that the answer cannot overtake it.
                    connection.silent.store(true, SeqCst);
                    state.lost.fetch_add(1, SeqCst);
                    swallowed |= lost == LostPart::Commit;
                }
            }
            Side::Server(rounds) => {
                let count = rounds.count(&buffer[..read]);
                let rounds = state.rounds.fetch_add(count, SeqCst) + count;
                let last = *state.cut_after.lock().unwrap();
                if last.is_some_and(|last| rounds >= last) && !swallowed {
                    let _ = to.write_all(&buffer[..read]);
                    state.cut();
                    continue;
                }
            }
        }
        match (read, swallowed) {
            (0, true) => loop {
                thread::park();
            },
            (0, false) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            (_, true) => {}
            (read, false) => {
                let _ = to.write_all(&buffer[..read]);
            }
        }
    }
}
