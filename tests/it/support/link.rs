//! A network link to PostgreSQL that can fall silent, where what goes into it is swallowed and nobody is told, or be cut; and
//! that counts how often somebody waits at it.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use dikala_testkit::StoreKind;

use super::{
    server::Installation,
    world::{Setup, World},
};

/// Stands between a client and a server. Connections go to the end of the process on threads of their own.
#[derive(Clone, Debug)]
pub struct Link {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Connections so far.
    made: AtomicUsize,
    /// Those before this one are silent.
    frozen: AtomicUsize,
    /// All are silent.
    dark: AtomicBool,
    /// Of the next transaction that such a text is part of.
    to_lose: Mutex<Option<(String, Lost)>>,
    /// Connections that fell silent over a commit.
    lost: AtomicUsize,
    /// Times that the server said that it is ready for the next: one for each time that a client waited for it.
    rounds: AtomicUsize,
    /// After that many all connections are cut.
    cut_after: Mutex<Option<usize>>,
    sockets: Mutex<Vec<TcpStream>>,
}

/// What a link swallows of a commit, and all that would come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It never arrives.
    Commit,
    /// It is carried out, and nobody hears of it.
    Answer,
}

#[derive(Debug)]
struct Connection {
    number: usize,
    silent: AtomicBool,
}

impl State {
    /// Ends all connections, and swallows what new ones say.
    fn cut(&self) {
        self.dark.store(true, SeqCst);
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn is_silent(&self, connection: &Connection) -> bool {
        self.dark.load(SeqCst)
            || connection.silent.load(SeqCst)
            || connection.number < self.frozen.load(SeqCst)
    }
}

/// Follows what a server sends: messages of one byte for the kind and four for the length, which counts itself; before them,
/// to who asked for TLS, one byte that says no.
#[derive(Default)]
struct Rounds {
    began: bool,
    head: Vec<u8>,
    /// Of the present message.
    left: usize,
}

impl Rounds {
    /// `ReadyForQuery` in what is sent, one after the other.
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

/// Follows what a client sends.
#[derive(Default)]
struct Watch {
    /// The end of what was sent before: a text may come in two pieces.
    before: Vec<u8>,
    /// The present transaction has the text.
    is_meant: bool,
}

impl Watch {
    /// Whether what is sent has the commit of which something is to be lost.
    fn sees(&mut self, sent: &[u8], to_lose: &Mutex<Option<(String, Lost)>>) -> Option<Lost> {
        let mut to_lose = to_lose.lock().unwrap();
        let (text, lost) = to_lose.as_ref()?;
        let has = |before: usize, text: &[u8]| {
            let before = &self.before[self.before.len().saturating_sub(before)..];
            let all = [before, sent].concat();
            all.windows(text.len()).any(|window| window == text)
        };
        let [begins, commits] = [&b"BEGIN"[..], b"COMMIT\0"].map(|sql| has(sql.len() - 1, sql));
        self.is_meant = !begins && self.is_meant || has(text.len() - 1, text.as_bytes());
        self.before = sent.to_vec();
        let lost = (self.is_meant && commits).then_some(*lost)?;
        *to_lose = None;
        Some(lost)
    }
}

/// A world whose server reaches its PostgreSQL over a link; none where the machine has no PostgreSQL.
pub async fn linked(setup: Setup) -> Option<(World, Link)> {
    let mut installation = Installation::migrated(StoreKind::Postgres)?;
    let url = installation.store.url.clone();
    let port = url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
    let link = Link::to(port.parse().unwrap());
    installation.set("database.url", &url.replace(port, &link.port.to_string()));
    installation.set("bridge.lost_after_seconds", "600");
    Some((World::on(installation, setup).await, link))
}

impl Link {
    /// To a port of this machine.
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
                    // The server hears nothing of it either.
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
                let ends = [&client, &server].map(|end| end.try_clone().unwrap());
                state.sockets.lock().unwrap().extend(ends);
                let up = (&client, &server, Side::Client(Watch::default()));
                let down = (&server, &client, Side::Server(Rounds::default()));
                for (from, to, watch) in [up, down] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (state, connection) = (state.clone(), connection.clone());
                    thread::spawn(move || pass(from, to, &state, &connection, watch));
                }
            }
        });
        link
    }

    /// All connections of now fall silent for good; new ones work.
    pub fn freeze_connections(&self) {
        self.state
            .frozen
            .store(self.state.made.load(SeqCst), SeqCst);
    }

    /// All connections fall silent, also those that are made now.
    pub fn go_dark(&self) {
        self.state.dark.store(true, SeqCst);
    }

    /// New connections work; those that were made until now stay silent.
    pub fn light_up(&self) {
        self.freeze_connections();
        *self.state.cut_after.lock().unwrap() = None;
        self.state.dark.store(false, SeqCst);
    }

    /// Of the next transaction that sends this text the commit, or the answer to it, is lost, and its connection silent from then on.
    pub fn lose(&self, text: &str, lost: Lost) {
        let before = self
            .state
            .to_lose
            .lock()
            .unwrap()
            .replace((text.to_owned(), lost));
        assert_eq!(before, None, "nothing was lost yet");
    }

    /// Commits of which something was lost so far.
    pub fn lost(&self) -> usize {
        self.state.lost.load(SeqCst)
    }

    /// How often a client waited for the server so far, on all connections.
    pub fn rounds(&self) -> usize {
        self.state.rounds.load(SeqCst)
    }

    /// All connections end after that many rounds more, the last of which is still answered; new ones are silent.
    pub fn cut_after(&self, rounds: usize) {
        let after = self.rounds() + rounds;
        *self.state.cut_after.lock().unwrap() = Some(after);
        if rounds == 0 {
            self.state.cut();
        }
    }

    /// Connections that were made so far.
    pub fn made(&self) -> usize {
        self.state.made.load(SeqCst)
    }
}

/// Whose words are passed on.
enum Side {
    Client(Watch),
    Server(Rounds),
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &State,
    connection: &Connection,
    mut side: Side,
) {
    let mut buffer = [0; 16 << 10];
    let mut swallowed = false;
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        // Once something is missing the rest makes no sense, and the end is not told either.
        swallowed |= state.is_silent(connection);
        match &mut side {
            Side::Client(watch) => {
                if let Some(lost) = watch.sees(&buffer[..read], &state.to_lose) {
                    // Before it is passed on: the answer must not be quicker.
                    connection.silent.store(true, SeqCst);
                    state.lost.fetch_add(1, SeqCst);
                    swallowed |= lost == Lost::Commit;
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
