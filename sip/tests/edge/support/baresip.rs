//! baresip from Debian, driven over its control port; it records what it hears.

use std::{process::Command, time::Duration};

use dikala_sip::settings::SipTransport;
use tokio::io::AsyncWriteExt;

use super::{ChildProgram, TestEdge, eventually, pitch, port, sound::recorded};

/// A baresip with one account.
pub struct Baresip {
    folder: tempfile::TempDir,
    control: tokio::net::TcpStream,
    _running: ChildProgram,
}

impl Baresip {
    pub async fn new(account: &str, rate: &str, channels: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let made = Command::new("sox")
            .args(["-n", "-r", rate, "-c", channels, "-b", "16", "tone.wav"])
            .args(["synth", "60", "sine", "440"])
            .current_dir(folder.path())
            .status();
        assert!(made.unwrap().success());
        let (control, sip) = (port(), port());
        let modules = "g711.so g722.so opus.so aufile.so sndfile.so srtp.so"
            .split(' ')
            .map(|module| format!("module {module}\n"))
            .collect::<String>();
        let config = format!(
            "module_path /usr/lib/baresip/modules\n{modules}module_app account.so\nmodule_app menu.so\nmodule ctrl_tcp.so\n\
             audio_source aufile,{path}/tone.wav\nsnd_path {path}\nctrl_tcp_listen 127.0.0.1:{control}\nsip_listen 127.0.0.1:{sip}\n"
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        std::fs::write(folder.path().join("accounts"), format!("{account}\n")).unwrap();
        let mut baresip = Command::new("baresip");
        baresip.args(["-f", &path]).current_dir(folder.path());
        let mut running = ChildProgram::start(&mut baresip);
        let control = loop {
            match tokio::net::TcpStream::connect(("127.0.0.1", control)).await {
                Ok(control) => break control,
                Err(_) => {
                    assert!(running.runs(), "baresip is gone");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        Self {
            folder,
            control,
            _running: running,
        }
    }

    pub async fn command(&mut self, command: &str, params: &str) {
        let json = serde_json::json!({ "command": command, "params": params }).to_string();
        let netstring = format!("{}:{json},", json.len());
        self.control.write_all(netstring.as_bytes()).await.unwrap();
    }

    /// The pitch of the last second that it heard, from its recording.
    pub fn hears(&self) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let dump = files
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|path| path.to_string_lossy().ends_with("-dec.wav"));
        let Some(bytes) = dump.and_then(|dump| std::fs::read(dump).ok()) else {
            return 0;
        };
        let Some(head) = bytes.get(..44) else {
            return 0;
        };
        let channels = usize::from(u16::from_le_bytes([head[22], head[23]]));
        let rate = u32::from_le_bytes([head[24], head[25], head[26], head[27]]);
        pitch(&recorded(&bytes, channels), usize::try_from(rate).unwrap())
    }
}

/// Places a call; passes once each side has heard the other's tone. `caller` is the account's user.
pub async fn talks(
    bench: &TestEdge,
    caller: &str,
    account: &str,
    transport: SipTransport,
    codec: &str,
) {
    let (rate, channels) = match codec {
        "opus" => ("48000", "2"),
        "G722" => ("16000", "1"),
        _ => ("8000", "1"),
    };
    let mut baresip = Baresip::new(account, rate, channels).await;
    let address = bench.address(transport);
    let transport = format!("{transport:?}").to_lowercase();
    let uri = format!("sip:+622150001000@{address};transport={transport}");
    baresip.command("dial", &uri).await;
    eventually("the edge hears the tone", || {
        bench
            .of(caller)
            .is_some_and(|call| (420..460).contains(&pitch(&call.audio, 16_000)))
    })
    .await;
    eventually("the phone hears the tone", || {
        (420..460).contains(&baresip.hears())
    })
    .await;
    let call = bench.of(caller).unwrap();
    assert_eq!(call.codec, Some(codec));
    baresip.command("hangup", "").await;
    eventually("the call is over", || bench.of(caller).unwrap().over).await;
}
