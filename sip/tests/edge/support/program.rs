//! Programs from Debian, run as an ordinary user.

use std::{
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

/// Checks that the program is installed. Prints a note if not, and fails if it is required.
pub fn need(program: &str) -> bool {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin"];
    let found = folders
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// Prints why a test is skipped, and fails if the programs are required.
pub fn skip(why: &str) {
    let required = std::env::var("DIKALA_REQUIRE_SIP").is_ok_and(|value| value == "1");
    assert!(!required, "{why}, and DIKALA_REQUIRE_SIP=1");
    eprintln!("skipped: {why}");
}

/// A minute of 440 Hz at 8 kHz in `tone.wav`, for a phone that speaks from a file.
pub fn make_tone(folder: &Path) {
    let made = Command::new("sox")
        .args(["-n", "-r", "8000", "-c", "1", "-b", "16", "tone.wav"])
        .args(["synth", "60", "sine", "440"])
        .current_dir(folder)
        .status();
    assert!(made.unwrap().success());
}

/// Held while a program is started, and while a port is tried: until a child begins its program, it has copies of all sockets.
fn starts_alone() -> MutexGuard<'static, ()> {
    static STARTING: Mutex<()> = Mutex::new(());
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A free, even port for UDP and TCP, outside the range of ephemeral ports. No other test of this process gets it, or the next.
pub fn port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random()));
    let _alone = starts_alone();
    loop {
        let port = 10_000 + NEXT.fetch_add(1, Ordering::Relaxed) % 5_000 * 2;
        let udp = std::net::UdpSocket::bind(("127.0.0.1", port)).is_ok();
        if udp && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A program that is ended with the test.
#[derive(Debug)]
pub struct ChildProgram(Child);

impl ChildProgram {
    pub fn start(command: &mut Command) -> Self {
        let _alone = starts_alone();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// The same with its standard input.
    pub fn fed(command: &mut Command) -> (Self, ChildStdin) {
        let _alone = starts_alone();
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        let input = child.stdin.take().unwrap();
        (Self(child), input)
    }

    pub fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits for its end. Returns whether it succeeded.
    pub async fn end(mut self, within: Duration) -> bool {
        let until = tokio::time::Instant::now() + within;
        while tokio::time::Instant::now() < until {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        if !self.runs() {
            return;
        }
        // kamailio ends its dozen processes if it is asked to end.
        let mut kill = Command::new("kill");
        let _ = Self::start(kill.arg(self.0.id().to_string())).0.wait();
        let until = Instant::now() + Duration::from_secs(1);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
