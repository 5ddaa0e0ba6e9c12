//! A network link to PostgreSQL that can fall silent: what goes into it is swallowed, and nobody is told.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
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
    fn is_silent(&self, connection: &Connection) -> bool {
        self.dark.load(SeqCst)
            || connection.silent.load(SeqCst)
            || connection.number < self.frozen.load(SeqCst)
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
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let connection = Arc::new(Connection {
                    number: state.made.fetch_add(1, SeqCst),
                    silent: AtomicBool::new(false),
                });
                let up = (&client, &server, Some(Watch::default()));
                for (from, to, watch) in [up, (&server, &client, None)] {
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

    /// Connections that were made so far.
    pub fn made(&self) -> usize {
        self.state.made.load(SeqCst)
    }
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &State,
    connection: &Connection,
    mut watch: Option<Watch>,
) {
    let mut buffer = [0; 16 << 10];
    let mut swallowed = false;
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        // Once something is missing the rest makes no sense, and the end is not told either.
        swallowed |= state.is_silent(connection);
        let sees = |watch: &mut Watch| watch.sees(&buffer[..read], &state.to_lose);
        if let Some(lost) = watch.as_mut().and_then(sees) {
            // Before it is passed on: the answer must not be quicker.
            connection.silent.store(true, SeqCst);
            state.lost.fetch_add(1, SeqCst);
            swallowed |= lost == Lost::Commit;
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
