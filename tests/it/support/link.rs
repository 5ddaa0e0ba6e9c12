//! A network link that can fall silent: what goes into it is swallowed, and nobody is told.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
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
}

impl State {
    fn is_silent(&self, connection: usize) -> bool {
        self.dark.load(SeqCst) || connection < self.frozen.load(SeqCst)
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
                let connection = state.made.fetch_add(1, SeqCst);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = state.clone();
                    thread::spawn(move || pass(from, to, &state, connection));
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

    /// Connections that were made so far.
    pub fn made(&self) -> usize {
        self.state.made.load(SeqCst)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State, connection: usize) {
    let mut buffer = [0; 16 << 10];
    let mut swallowed = false;
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        // Once something is missing the rest makes no sense, and the end is not told either.
        swallowed |= state.is_silent(connection);
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
