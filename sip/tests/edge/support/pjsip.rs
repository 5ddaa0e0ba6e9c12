//! A phone of PJSIP, run by `pjsip.py` with the library's package from PyPI.

use std::{
    io::Write,
    path::PathBuf,
    process::{ChildStdin, Command},
};

use super::{ChildProgram, Recording, eventually, make_tone, need, skip};

/// The Python that has the library (`.ci/pjsua2`).
const PYTHON: &str = "PJSUA2_PYTHON";

/// Its recordings have the rate of its mixer.
pub const PJSIP_RATE: usize = 16_000;

/// Settings of a phone.
#[derive(Debug, Clone)]
pub struct PjsipSettings {
    pub caller: String,
    /// Its own address.
    pub host: &'static str,
    /// `UDP`, `TCP` or `TLS`.
    pub transport: &'static str,
    /// Its only codec, without the rate.
    pub codec: &'static str,
    /// SRTP is mandatory, with keys over TLS only.
    pub srtp: bool,
    /// It offers RFC 4733 events.
    pub events: bool,
    /// It requires a session timer of 90 s.
    pub timer: bool,
}

impl Default for PjsipSettings {
    fn default() -> Self {
        Self {
            caller: "+6281234567890".to_owned(),
            host: "127.0.0.1",
            transport: "UDP",
            codec: "PCMA",
            srtp: false,
            events: true,
            timer: false,
        }
    }
}

pub struct PjsipPhone {
    pub heard: Recording,
    folder: tempfile::TempDir,
    commands: ChildStdin,
    _running: ChildProgram,
}

/// Checks that the phone can run, as [`need`] does.
pub fn need_pjsip() -> bool {
    let found = std::env::var_os(PYTHON).is_some();
    if !found {
        skip(&format!("no {PYTHON}, see .ci/pjsua2"));
    }
    found && need("sox")
}

impl PjsipPhone {
    /// A phone that is ready.
    pub async fn new(settings: &PjsipSettings) -> Self {
        let phone = Self::start(settings);
        eventually("the phone starts", || phone.says("at ").is_some()).await;
        phone
    }

    /// The same in the network of this thread.
    pub fn start(settings: &PjsipSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_tone(folder.path());
        let options = serde_json::json!({
            "caller": settings.caller,
            "host": settings.host,
            "transport": settings.transport,
            "codec": settings.codec,
            "srtp": settings.srtp,
            "events": settings.events,
            "timer": settings.timer,
        });
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/edge/support/pjsip.py");
        let mut python = Command::new(std::env::var_os(PYTHON).unwrap());
        python
            .arg(script)
            .arg(options.to_string())
            .current_dir(folder.path());
        let (running, commands) = ChildProgram::fed(&mut python);
        Self {
            heard: Recording(folder.path().join("heard.wav")),
            folder,
            commands,
            _running: running,
        }
    }

    pub fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// The rest of the first line that it said with this beginning.
    pub fn says(&self, beginning: &str) -> Option<String> {
        let said = std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        let mut lines = said.lines();
        lines.find_map(|line| Some(line.strip_prefix(beginning)?.to_owned()))
    }
}
