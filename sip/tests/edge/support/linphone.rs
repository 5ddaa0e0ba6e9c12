//! Linphone's console program from Debian. It speaks from a file, and records what it hears.

use std::{
    io::Write,
    process::{ChildStdin, Command},
};

use super::{ChildProgram, Recording, make_tone};

/// A linphonec that registers nowhere.
pub struct Linphone {
    /// At the sample rate of the codec.
    pub heard: Recording,
    _folder: tempfile::TempDir,
    commands: ChildStdin,
    _running: ChildProgram,
}

/// Settings of a linphonec.
#[derive(Debug, Default)]
pub struct LinphoneSettings {
    /// SRTP is mandatory.
    pub srtp: bool,
    /// Keys are sent as INFO.
    pub info: bool,
    pub ipv6: bool,
    /// It wants a session timer of 90 s that the edge refreshes.
    pub timer: bool,
}

impl Linphone {
    pub fn new(caller: &str, settings: &LinphoneSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_tone(folder.path());
        // Without its folder it starts no SIP.
        std::fs::create_dir_all(folder.path().join(".local/share/linphone")).unwrap();
        let (srtp, info) = (u8::from(settings.srtp), u8::from(settings.info));
        let encryption = if settings.srtp { "srtp" } else { "none" };
        let (host, ipv6) = if settings.ipv6 {
            ("[::1]", 1)
        } else {
            ("127.0.0.1", 0)
        };
        let config = format!(
            "[sip]\nsip_port=-1\nsip_tcp_port=-1\nsip_tls_port=-1\nipv6_migration_done=1\nuse_ipv6={ipv6}\n\
             contact=sip:{caller}@{host}\nguess_hostname=0\nverify_server_certs=0\nverify_server_cn=0\n\
             media_encryption={encryption}\nmedia_encryption_mandatory={srtp}\nuse_info={info}\nuse_rfc2833={}\n\
             session_expires_enabled={}\nsession_expires_value=90\nsession_expires_min_value=90\n\
             session_expires_refresher_value=1\n\
             [rtp]\naudio_rtp_port=-1\n",
            1 - info,
            u8::from(settings.timer)
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
        let tone = folder.path().join("tone.wav");
        let heard = folder.path().join("heard.wav");
        let mut phone = Self {
            heard: Recording(heard.clone()),
            _folder: folder,
            commands,
            _running: running,
        };
        phone.command("soundcard use files");
        phone.command(&format!("play {}", tone.display()));
        phone.command(&format!("record {}", heard.display()));
        phone
    }

    pub fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }
}
