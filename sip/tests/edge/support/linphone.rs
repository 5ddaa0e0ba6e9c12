//! Linphone's console program from Debian. It speaks from a file, and records what it hears.

use std::{
    io::Write,
    path::PathBuf,
    process::{ChildStdin, Command},
};

use super::{ChildProgram, pitch, sound::recorded};

/// A linphonec that registers nowhere.
pub struct Linphone {
    folder: tempfile::TempDir,
    commands: ChildStdin,
    _running: ChildProgram,
}

impl Linphone {
    /// `encryption`: `none`, or `srtp`, which is then mandatory.
    pub fn new(caller: &str, encryption: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("sox")
            .args(["-n", "-r", "8000", "-c", "1", "-b", "16", "tone.wav"])
            .args(["synth", "60", "sine", "440"])
            .current_dir(folder.path())
            .status();
        assert!(made.unwrap().success());
        // Without its folder it starts no SIP.
        std::fs::create_dir_all(folder.path().join(".local/share/linphone")).unwrap();
        let mandatory = u8::from(encryption == "srtp");
        let config = format!(
            "[sip]\nsip_port=-1\nsip_tcp_port=-1\nsip_tls_port=-1\nipv6_migration_done=1\nuse_ipv6=0\n\
             contact=sip:{caller}@127.0.0.1\nguess_hostname=0\nverify_server_certs=0\nverify_server_cn=0\n\
             media_encryption={encryption}\nmedia_encryption_mandatory={mandatory}\n\
             [rtp]\naudio_rtp_port=-1\n"
        );
        std::fs::write(folder.path().join("linphonerc"), config).unwrap();
        let mut linphonec = Command::new("linphonec");
        linphonec
            .args(["-c", "linphonerc"])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME");
        let (running, commands) = ChildProgram::fed(&mut linphonec);
        let mut phone = Self {
            folder,
            commands,
            _running: running,
        };
        let path = phone.folder.path().join("tone.wav");
        phone.command("soundcard use files");
        phone.command(&format!("play {}", path.display()));
        phone.command(&format!("record {}", phone.recording().display()));
        phone
    }

    pub fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("heard.wav")
    }

    /// The pitch of the last second that it heard. The file gets its header at the end, so the codec's `rate` counts.
    pub fn hears(&self, rate: usize) -> usize {
        let bytes = std::fs::read(self.recording()).unwrap_or_default();
        pitch(&recorded(&bytes, 1), rate)
    }

    /// Forgets what it heard. It goes on writing at the same place.
    pub fn forgets(&self) {
        if let Ok(recording) = std::fs::File::options().write(true).open(self.recording()) {
            recording.set_len(0).unwrap();
        }
    }
}
