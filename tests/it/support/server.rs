//! The real binary: an installation (store, folder, settings), commands run on it, and `serve`.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use dikala_testkit::{PATIENCE, Place, StoreKind, folder, free_port, large, within};
use serde_json::Value;
use tempfile::TempDir;

use super::{rest::Rest, statements};

/// Everything a command of ours needs: a store, a folder to stand in, settings.
#[derive(Debug)]
pub struct Installation {
    pub settings: Vec<(String, String)>,
    /// How many files the program may open, and how far it may raise that.
    pub files: Option<(u32, u32)>,
    pub store: Place,
    pub folder: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A running `dikala serve`; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The public address, `http://127.0.0.1:PORT`.
    pub http: String,
    /// The operators' address.
    pub operator: String,
    // Last: the store goes after the process that uses it.
    pub installation: Installation,
}

impl Installation {
    /// On a store without a schema; `None` where the store is not to be had on this machine.
    pub fn new(kind: StoreKind) -> Option<Self> {
        let folder = folder();
        let store = kind.place(folder.path())?;
        Some(Self::on(store, folder))
    }

    /// On a store that was migrated before.
    pub fn migrated(kind: StoreKind) -> Option<Self> {
        let folder = folder();
        let store = kind.migrated_place(folder.path())?;
        Some(Self::on(store, folder))
    }

    /// On a store that is migrated and was made elsewhere.
    pub fn at(store: Place) -> Self {
        Self::on(store, folder())
    }

    /// For another node on the same store: all is the same but the addresses and the folder.
    pub fn beside(&self) -> Self {
        let mut installation = Self {
            settings: self.settings.clone(),
            files: self.files,
            store: self.store.shared(),
            folder: folder(),
        };
        let url = installation.store.url.clone();
        for (name, value) in [
            ("http.listen", &*format!("127.0.0.1:{}", free_port())),
            ("operator.listen", &format!("127.0.0.1:{}", free_port())),
            ("database.url", &url),
        ] {
            installation.set(name, value);
        }
        installation
    }

    fn on(store: Place, folder: TempDir) -> Self {
        let mut installation = Self {
            settings: Vec::new(),
            files: None,
            store,
            folder,
        };
        let url = installation.store.url.clone();
        let key = match large::wanted() {
            true => large::key(),
            false => STANDARD.encode(rand::random::<[u8; 32]>()),
        };
        for (name, value) in [
            ("http.listen", &*format!("127.0.0.1:{}", free_port())),
            ("operator.listen", &format!("127.0.0.1:{}", free_port())),
            ("database.url", &url),
            // The tests' own PostgreSQL waits for no disk.
            ("database.allow_unsafe", "true"),
            ("secrets.key", &key),
            ("outbound.allow_http", "true"),
            ("outbound.allow_cidrs", "127.0.0.0/8"),
            // Calls that are told with an old `at` have been ringing for long when they come in.
            ("calls.ring_timeout_seconds", "3600"),
        ] {
            installation.set(name, value);
        }
        installation
    }

    /// Sets a configuration key by its environment variable; the later setting of a key wins.
    pub fn set(&mut self, key: &str, value: &str) {
        let variable = format!("DIKALA_{}", key.replace('.', "__").to_uppercase());
        self.settings.retain(|(name, _)| *name != variable);
        self.settings.push((variable, value.to_owned()));
    }

    pub fn unset(&mut self, key: &str) {
        self.set(key, "");
        self.settings.pop();
    }

    /// A command with these settings and nothing else of this process's environment that could matter.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let files = self.files.map_or_else(String::new, |(soft, hard)| {
            format!("ulimit -S -n {soft} && ulimit -H -n {hard} && ")
        });
        // A write past the limit of a file's size fails, as on a full disk, and is no reason to die.
        let script = format!("trap '' XFSZ; {files}exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .arg(program())
            .args(arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "TMPDIR"))
            .env("HOME", self.folder.path())
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        let output = self.command(arguments).output().unwrap();
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command with `--json` that has to succeed, and reads its document.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> Value {
        let finished = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(finished.code, Some(0), "dikala {arguments:?}: {finished:?}");
        finished.json()
    }

    /// What `serve` writes to standard error.
    pub fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("serve.log")
    }
}

/// The program under test: that of this build, or another of the same schema, such as one that is built for release.
fn program() -> OsString {
    std::env::var_os("DIKALA_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_dikala").into())
}

impl Finished {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|fault| {
            panic!("standard output is not one JSON document ({fault}): {self:?}")
        })
    }
}

impl Server {
    /// Starts `serve` and waits until it says that it is ready.
    pub fn start(installation: Installation) -> Self {
        let (child, http, operator) = launch(&installation, &["serve"]);
        Self {
            child,
            http,
            operator,
            installation,
        }
    }

    pub fn cli(&self, arguments: &[&str]) -> Value {
        self.installation.cli(arguments)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client of the public listener.
    pub fn rest(&self) -> Rest {
        Rest::new(&self.http)
    }

    /// The process dies as in a power cut.
    pub fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again on the same store and the same ports.
    pub fn restart(&mut self) {
        (self.child, self.http, self.operator) = launch(&self.installation, &["serve"]);
    }

    pub fn send_sigterm(&self) {
        signal("TERM", self.pid());
    }

    /// The process stands still, and so do its clocks for it.
    pub fn freeze(&self) {
        signal("STOP", self.pid());
        // Each thread stands still when it has seen the signal, and takes what comes until then.
        let threads = format!("/proc/{}/task", self.child.id());
        let stands = |thread: fs::DirEntry| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned());
            state.is_none_or(|state| state.starts_with('T'))
        };
        while !fs::read_dir(&threads).unwrap().flatten().all(stands) {
            thread::yield_now();
        }
    }

    /// It goes on.
    pub fn thaw(&self) {
        signal("CONT", self.pid());
    }

    /// From now on no file grows past so many bytes; without a number, files grow again.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let soft = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let set = Command::new("prlimit")
            .args(["--pid", &self.child.id().to_string()])
            .arg(format!("--fsize={soft}:"))
            .status();
        assert!(set.unwrap().success());
    }

    /// What the process has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.installation.log()).unwrap()
    }

    /// SIGTERM, and the exit code that follows.
    pub async fn terminate(&mut self) -> i32 {
        self.send_sigterm();
        self.exited().await.code().expect("it exits by itself")
    }

    pub async fn exited(&mut self) -> ExitStatus {
        within(PATIENCE, "the server to exit", async || {
            self.child.try_wait().unwrap()
        })
        .await
    }

    /// The most megabytes of memory that were in use at once since it was started, by the kernel's count.
    /// Sockets that the process has open now.
    pub fn sockets(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        open.flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    }

    pub fn peak_memory_mb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(self.installation.log()).unwrap_or_default();
            let lines: Vec<_> = log
                .lines()
                .filter(|line| !line.contains("sqlx::query"))
                .collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            println!("--- the end of the server's log ---\n{tail}\n---");
        } else {
            statements::judge(&self.installation.log(), &self.installation.store.url);
        }
    }
}

/// Ctrl-C.
pub fn interrupt(child: &Child) {
    signal("INT", child.id());
}

/// SIGHUP: what stands in files is read again.
pub fn hang_up(pid: u32) {
    signal("HUP", pid);
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh")
        .args(["-c", "kill -\"$0\" \"$1\"", name, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// A process with a `ready …` line: `serve`.
fn launch(installation: &Installation, arguments: &[&str]) -> (Child, String, String) {
    let log = File::options()
        .create(true)
        .append(true)
        .open(installation.log())
        .unwrap();
    let mut child = installation
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let ready = wait_for_line(&mut child, &installation.log(), |line| {
        let (http, operator) = line.strip_prefix("ready http=")?.split_once(" operator=")?;
        Some((http.to_owned(), operator.trim_end().to_owned()))
    });
    (child, ready.0, ready.1)
}

/// Reads standard output until a line says what is wanted; goes on reading after that, so that the pipe never fills.
pub fn wait_for_line<T: Send + 'static>(
    child: &mut Child,
    log: &Path,
    mut wanted: impl FnMut(&str) -> Option<T> + Send + 'static,
) -> T {
    let (found, answer) = mpsc::channel();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Some(value) = wanted(&line) {
                let _ = found.send(value);
            }
        }
    });
    let started = Instant::now();
    let why = match answer.recv_timeout(PATIENCE) {
        Ok(value) => return value,
        Err(RecvTimeoutError::Timeout) => "says nothing".to_owned(),
        Err(RecvTimeoutError::Disconnected) => {
            let status = child.wait().unwrap();
            format!("ended: {status}, signal {:?}", status.signal())
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    let log = fs::read_to_string(log).unwrap_or_default();
    panic!("after {:?} the program {why}:\n{log}", started.elapsed());
}

/// Waits for a child that was started beside the test.
pub async fn finished(mut child: Child, patience: Duration) -> Finished {
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |pipe: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || std::io::read_to_string(pipe).unwrap_or_default())
    };
    let (stdout, stderr) = (read(Box::new(out)), read(Box::new(err)));
    let status = within(patience, "the command to end", async || {
        child.try_wait().unwrap()
    })
    .await;
    Finished {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// One sentence on standard error, nothing on standard output.
#[track_caller]
pub fn assert_fails(finished: &Finished, codes: &[i32], names: &str) {
    assert!(
        codes.iter().any(|code| finished.code == Some(*code)),
        "not one of {codes:?}: {finished:?}"
    );
    assert_eq!(finished.stdout, "", "errors go to standard error");
    assert!(!finished.stderr.trim().is_empty(), "{finished:?}");
    assert!(
        finished.stderr.contains(names),
        "names {names:?}: {finished:?}"
    );
    assert!(!finished.stderr.contains("panicked"), "{finished:?}");
}

/// A migrated store without a server.
macro_rules! installation {
    ($store:expr) => {{
        let Some(installation) = Installation::new($store) else {
            return;
        };
        let migrated = installation.run(&["migrate"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        installation
    }};
}
pub(crate) use installation;
