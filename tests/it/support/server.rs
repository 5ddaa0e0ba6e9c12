//! The real binary: an installation (store, folder, settings), commands run on it, and `serve`.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use dikala_testkit::{PATIENCE, StoreKind, StorePlace, folder, free_port, large, within};
use serde_json::Value;
use tempfile::TempDir;

use super::{rest::Rest, statements};

/// Runs a program until standard input is closed, whose other end only this process holds.
const OWNER_SCRIPT: &str = r#"
"$0" "$@" &
trap 'kill -9 $!; wait; rm -rf "$HOME"' EXIT
cat >/dev/null
"#;

/// Everything that a command needs: a store, a working folder, and settings.
#[derive(Debug)]
pub struct Installation {
    pub settings: Vec<(String, String)>,
    /// Soft and hard limit of open files.
    pub files: Option<(u32, u32)>,
    pub store: StorePlace,
    pub folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
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
    // Last: the store is removed after the process that uses it.
    pub installation: Installation,
}

impl Installation {
    /// An installation without a schema; `None` if the store is not available.
    pub fn new(kind: StoreKind) -> Option<Self> {
        let folder = folder();
        let store = kind.place(folder.path())?;
        Some(Self::on(store, folder))
    }

    /// An installation with a migrated store.
    pub fn migrated(kind: StoreKind) -> Option<Self> {
        let folder = folder();
        let store = kind.migrated_place(folder.path())?;
        Some(Self::on(store, folder))
    }

    /// An installation on an existing, migrated store.
    pub fn at(store: StorePlace) -> Self {
        Self::on(store, folder())
    }

    /// An installation for another node on the same store; only addresses and folder differ.
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

    fn on(store: StorePlace, folder: TempDir) -> Self {
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
            // The tests' PostgreSQL does not flush commits.
            ("database.allow_unsafe", "true"),
            ("secrets.key", &key),
            ("outbound.allow_http", "true"),
            ("outbound.allow_cidrs", "127.0.0.0/8"),
            // Calls reported with an old `at` have been ringing for long when they come in.
            ("calls.ring_timeout_seconds", "3600"),
        ] {
            installation.set(name, value);
        }
        installation
    }

    /// Sets a configuration key by its environment variable; a later setting replaces an earlier one.
    pub fn set(&mut self, key: &str, value: &str) {
        let variable = variable(key);
        self.settings.retain(|(name, _)| *name != variable);
        self.settings.push((variable, value.to_owned()));
    }

    /// Lets the service's own bridge answer with the test voice, on a free port.
    pub fn answer_with_the_test_voice(&mut self) {
        for (key, value) in [
            ("telephony.enabled", "true"),
            ("telephony.voice.provider", "scripted"),
            ("telephony.sip.listen", "udp://127.0.0.1:0"),
        ] {
            self.set(key, value);
        }
    }

    /// The value that a configuration key was set to.
    fn setting(&self, key: &str) -> Option<&str> {
        let variable = variable(key);
        let set = self.settings.iter().find(|(name, _)| *name == variable);
        set.map(|(_, value)| &**value)
    }

    pub fn unset(&mut self, key: &str) {
        self.set(key, "");
        self.settings.pop();
    }

    /// A command with these settings, isolated from the test's environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let files = self.files.map_or_else(String::new, |(soft, hard)| {
            format!("ulimit -S -n {soft} && ulimit -H -n {hard} && ")
        });
        // A write beyond the file size limit must fail, as on a full disk, instead of killing the process.
        let script = format!("trap '' XFSZ; {files}exec \"$0\" \"$@\"");
        // By its path: a program that is looked up in a changed `PATH` costs a copy of this large process.
        let mut command = Command::new("/bin/sh");
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

    /// Runs a command until it ends.
    pub fn run(&self, arguments: &[&str]) -> CommandResult {
        let output = self.command(arguments).output().unwrap();
        CommandResult {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command with `--json`, which must succeed, and parses its document.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> Value {
        let finished = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(finished.code, Some(0), "dikala {arguments:?}: {finished:?}");
        finished.json()
    }

    /// The log file of `serve`.
    pub fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("serve.log")
    }
}

/// The environment variable of a configuration key.
fn variable(key: &str) -> String {
    format!("DIKALA_{}", key.replace('.', "__").to_uppercase())
}

/// The program under test: this build's, or another one with the same schema, such as a release build.
fn program() -> OsString {
    std::env::var_os("DIKALA_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_dikala").into())
}

impl CommandResult {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|fault| {
            panic!("standard output is not one JSON document ({fault}): {self:?}")
        })
    }
}

impl Server {
    /// Starts `serve` and waits for its line `ready`.
    pub fn start(installation: Installation) -> Self {
        let (child, http, operator) = launch(&installation, installation.command(&["serve"]));
        Self {
            child,
            http,
            operator,
            installation,
        }
    }

    /// Starts a server that is killed when this process ends, however it ends. Its folder is removed then.
    pub fn start_for_all(installation: Installation) -> Self {
        let mut owner = Command::new("/bin/sh");
        let serve = installation.command(&["serve"]);
        owner
            .args(["-c", OWNER_SCRIPT])
            .arg(serve.get_program())
            .args(serve.get_args())
            .env_clear()
            .envs(
                serve
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .current_dir(installation.folder.path())
            // Ctrl-C on the terminal ends the tests; the shell must survive it to clean up.
            .process_group(0)
            .stdin(Stdio::piped());
        let (child, http, operator) = launch(&installation, owner);
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

    /// A client of the operators' API, with the token if there is one.
    pub fn operator_api(&self) -> Rest {
        let rest = Rest::new(&format!("{}/operator/v1", self.operator));
        match self.installation.setting("operator.token") {
            Some(token) => rest.with("authorization", &format!("Bearer {token}")),
            None => rest,
        }
    }

    /// Kills the process, as a power failure would.
    pub fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again on the same store and ports.
    pub fn restart(&mut self) {
        (self.child, self.http, self.operator) =
            launch(&self.installation, self.installation.command(&["serve"]));
    }

    pub fn send_sigterm(&self) {
        signal("TERM", self.pid());
    }

    pub fn send_sighup(&self) {
        signal("HUP", self.pid());
    }

    /// Pauses the process, including its timers.
    pub fn freeze(&self) {
        signal("STOP", self.pid());
        // A thread stops only when it has seen the signal, and may handle input until then.
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

    /// Resumes the process.
    pub fn thaw(&self) {
        signal("CONT", self.pid());
    }

    /// Limits the size of files, or removes the limit.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let soft = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let set = Command::new("prlimit")
            .args(["--pid", &self.child.id().to_string()])
            .arg(format!("--fsize={soft}:"))
            .status();
        assert!(set.unwrap().success());
    }

    /// The log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.installation.log()).unwrap()
    }

    /// Sends SIGTERM; returns the exit code.
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

    /// The number of the process's open sockets.
    pub fn sockets(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        open.flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    }

    /// The maximum resident memory since the start, in megabytes, as the kernel counts it.
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
        let log = self.installation.log();
        if thread::panicking() {
            print_end_of(&log);
        } else {
            let log = fs::read_to_string(log).unwrap_or_default();
            statements::judge(&log, &self.installation.store.url);
        }
    }
}

/// Prints the end of a server's log, for a test that failed.
pub fn print_end_of(log: &Path) {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| !line.contains("sqlx::query"))
        .collect();
    let tail = lines[lines.len().saturating_sub(60)..].join("\n");
    println!("--- the end of the server's log ---\n{tail}\n---");
}

/// Sends Ctrl-C.
pub fn interrupt(child: &Child) {
    signal("INT", child.id());
}

/// Sends SIGHUP, which reloads certificate files.
pub fn hang_up(pid: u32) {
    signal("HUP", pid);
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh")
        .args(["-c", "kill -\"$0\" \"$1\"", name, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Starts `serve` and waits for its line `ready`.
fn launch(installation: &Installation, mut serve: Command) -> (Child, String, String) {
    let log = File::options()
        .create(true)
        .append(true)
        .open(installation.log())
        .unwrap();
    let mut child = serve.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let ready = wait_for_line(&mut child, &installation.log(), |line| {
        let (http, operator) = line.strip_prefix("ready http=")?.split_once(" operator=")?;
        Some((http.to_owned(), operator.trim_end().to_owned()))
    });
    (child, ready.0, ready.1)
}

/// Reads standard output until a line has the wanted value. Reading continues, so that the pipe never fills.
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

/// Waits for a child that runs beside the test.
pub async fn finished(mut child: Child, patience: Duration) -> CommandResult {
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |pipe: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || std::io::read_to_string(pipe).unwrap_or_default())
    };
    let (stdout, stderr) = (read(Box::new(out)), read(Box::new(err)));
    let status = within(patience, "the command to end", async || {
        child.try_wait().unwrap()
    })
    .await;
    CommandResult {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// Asserts a single sentence on standard error, and nothing on standard output.
#[track_caller]
pub fn assert_fails(finished: &CommandResult, codes: &[i32], names: &str) {
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

/// A migrated installation without a server.
macro_rules! installation {
    ($store:expr) => {
        match Installation::migrated($store) {
            Some(installation) => installation,
            None => return,
        }
    };
}
pub(crate) use installation;
