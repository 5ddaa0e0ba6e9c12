//! Servers that many tests share, each test with its own tenant: one server per store and settings. It runs until
//! the test process ends.

use std::{
    fs,
    ops::{Deref, DerefMut},
    sync::{Mutex, PoisonError},
    thread,
};

use dikala_testkit::StoreKind;

use super::{
    server::{self, Installation, Server},
    statements,
};

/// Settings of a server: keys and values.
pub type Settings = Vec<(&'static str, String)>;

static SERVERS: Mutex<Vec<&'static SharedServer>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct SharedServer {
    kind: StoreKind,
    settings: Settings,
    server: Server,
    /// The part of the log whose statements were checked.
    judged: Mutex<usize>,
}

/// A test's use of a shared server.
#[derive(Debug)]
pub struct ServerUse(&'static SharedServer);

/// The server of a world.
#[derive(Debug)]
pub enum WorldServer {
    Own(Box<Server>),
    Shared(ServerUse),
}

impl ServerUse {
    /// The server with these settings; the first test starts it. `None` if the store is not available.
    pub fn begin(kind: StoreKind, settings: &Settings) -> Option<Self> {
        // A server that did not start fails its first test alone.
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let present = servers
            .iter()
            .find(|shared| shared.kind == kind && shared.settings == *settings);
        if let Some(shared) = present {
            return Some(Self(shared));
        }
        let mut installation = Installation::migrated(kind)?;
        installation.set("log.level", statements::LOG_LEVEL);
        // All tests have one address.
        installation.set("http.unauthenticated_requests_per_minute", "100000");
        for (key, value) in settings {
            installation.set(key, value);
        }
        let shared = Box::leak(Box::new(SharedServer {
            kind,
            settings: settings.clone(),
            server: Server::start_for_all(installation),
            judged: Mutex::new(0),
        }));
        servers.push(shared);
        Some(Self(shared))
    }
}

impl SharedServer {
    /// The part of the log that no test has checked yet.
    fn unjudged(&self) -> String {
        let mut judged = self.judged.lock().unwrap();
        let log = fs::read(self.server.installation.log()).unwrap();
        let new = &log[*judged..];
        // The last line may be incomplete.
        let whole = new.iter().rposition(|byte| *byte == b'\n');
        let new = &new[..whole.map_or(0, |last| last + 1)];
        *judged += new.len();
        String::from_utf8_lossy(new).into_owned()
    }
}

impl Drop for ServerUse {
    fn drop(&mut self) {
        let Installation { store, .. } = &self.0.server.installation;
        let log = self.0.server.installation.log();
        if thread::panicking() {
            server::print_end_of(&log);
            return;
        }
        statements::judge(&self.0.unjudged(), &store.url);
    }
}

impl Deref for WorldServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        match self {
            Self::Own(server) => server,
            Self::Shared(ServerUse(shared)) => &shared.server,
        }
    }
}

impl DerefMut for WorldServer {
    fn deref_mut(&mut self) -> &mut Server {
        match self {
            Self::Own(server) => server,
            Self::Shared(_) => panic!("other tests use this server, too: start one with `world!`"),
        }
    }
}
