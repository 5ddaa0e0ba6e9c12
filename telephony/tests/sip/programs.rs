//! Calls by the phones and proxies that Debian has.

use std::{process::Command, time::Duration};

use dikala_telephony::settings::Transport;
use tokio::io::AsyncWriteExt;

use crate::support::{Bench, Manner, Running, eventually, need, port};

/// The built-in caller of sipp: INVITE with PCMU, talk, BYE.
fn sipp(bench: &Bench, arguments: &[&str]) -> Command {
    let mut sipp = Command::new("sipp");
    sipp.args(["-sn", "uac", "-s", "+622150001000", "-i", "127.0.0.1"])
        .args(["-nostdin", "-timeout_error"])
        .args(arguments)
        .arg(bench.udp().to_string());
    sipp
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_calls_come_twenty_a_second() {
    if !need("sipp") {
        return;
    }
    let bench = Bench::new(Manner::Tone).await;
    let mut calls = sipp(
        &bench,
        &["-m", "100", "-r", "20", "-d", "1000", "-timeout", "40"],
    );
    assert!(
        Running::start(&mut calls)
            .end(Duration::from_secs(60))
            .await
    );
    eventually("all are over", || bench.edge.statistics().calls == 0).await;
    let statistics = bench.edge.statistics();
    assert_eq!(
        (statistics.invites, statistics.answered),
        (100, 100),
        "{statistics:?}"
    );
    assert_eq!(
        (statistics.refused, statistics.cancelled, statistics.failed),
        (0, 0, 0)
    );
}

/// A baresip with one account, driven over its control port.
struct Baresip {
    folder: tempfile::TempDir,
    control: tokio::net::TcpStream,
    _running: Running,
}

impl Baresip {
    async fn new(account: &str, extra: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let made = Command::new("sox")
            .args([
                "-n", "-r", "8000", "-c", "1", "-b", "16", "tone.wav", "synth", "20", "sine", "440",
            ])
            .current_dir(folder.path())
            .status();
        assert!(made.unwrap().success());
        let (control, sip) = (port(), port());
        let modules = "g711.so opus.so aufile.so sndfile.so srtp.so"
            .split(' ')
            .map(|module| format!("module {module}\n"))
            .collect::<String>();
        let config = format!(
            "module_path /usr/lib/baresip/modules\n{modules}module_app account.so\nmodule_app menu.so\nmodule ctrl_tcp.so\n\
             audio_source aufile,{path}/tone.wav\nsnd_path {path}\nctrl_tcp_listen 127.0.0.1:{control}\nsip_listen 127.0.0.1:{sip}\n{extra}"
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        std::fs::write(folder.path().join("accounts"), format!("{account}\n")).unwrap();
        let mut baresip = Command::new("baresip");
        baresip.args(["-f", &path]).current_dir(folder.path());
        let running = Running::start(&mut baresip);
        let control = loop {
            match tokio::net::TcpStream::connect(("127.0.0.1", control)).await {
                Ok(control) => break control,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        Self {
            folder,
            control,
            _running: running,
        }
    }

    async fn command(&mut self, command: &str, params: &str) {
        let json = serde_json::json!({ "command": command, "params": params }).to_string();
        let netstring = format!("{}:{json},", json.len());
        self.control.write_all(netstring.as_bytes()).await.unwrap();
    }

    /// What was decoded of what came, by the file that baresip writes.
    fn received(&self) -> Vec<i16> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let dump = files
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|path| path.to_string_lossy().ends_with("-dec.wav"));
        let Some(dump) = dump else {
            return Vec::new();
        };
        let bytes = std::fs::read(dump).unwrap();
        let samples = bytes.get(44..).unwrap_or_default().chunks_exact(2);
        samples
            .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
            .collect()
    }
}

/// How often the sound goes up through zero in a second of it; nothing where it is silence.
fn pitch(samples: &[i16], rate: usize) -> usize {
    let Some(last) = samples.len().checked_sub(rate) else {
        return 0;
    };
    let second = &samples[last..];
    if second.iter().all(|sample| sample.unsigned_abs() < 500) {
        return 0;
    }
    second
        .windows(2)
        .filter(|pair| pair[0] < 0 && pair[1] >= 0)
        .count()
}

async fn talks(bench: &Bench, account: &str, transport: Transport, codec: &str, rate: usize) {
    let mut baresip = Baresip::new(account, "").await;
    let address = bench.address(transport);
    let transport = format!("{transport:?}").to_lowercase();
    let uri = format!("sip:+622150001000@{address};transport={transport}");
    baresip.command("dial", &uri).await;
    let before = bench.calls().len();
    eventually("the edge hears the tone", || {
        bench
            .calls()
            .get(before)
            .is_some_and(|call| (420..460).contains(&pitch(&call.audio, 16_000)))
    })
    .await;
    eventually("the phone hears the tone", || {
        (420..460).contains(&pitch(&baresip.received(), rate))
    })
    .await;
    let call = bench.calls().pop().unwrap();
    assert_eq!(call.metadata["sip"]["codec"], codec);
    baresip.command("hangup", "").await;
    eventually("the call is over", || bench.calls().pop().unwrap().over).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn baresip_talks_in_every_codec_over_every_transport_clear_and_encrypted() {
    if !need("baresip") || !need("sox") {
        return;
    }
    let bench = Bench::new(Manner::Echo).await;
    for (transport, codec, ours, rate, encryption) in [
        (Transport::Udp, "PCMA", "PCMA", 8_000, ""),
        (Transport::Tcp, "PCMU", "PCMU", 8_000, ""),
        (Transport::Udp, "opus/48000/2", "opus", 48_000, ""),
        (Transport::Tcp, "PCMA", "PCMA", 8_000, ";mediaenc=srtp-mand"),
        (
            Transport::Udp,
            "opus/48000/2",
            "opus",
            48_000,
            ";mediaenc=srtp",
        ),
    ] {
        let account = format!("<sip:budi@127.0.0.1>;regint=0;audio_codecs={codec}{encryption}");
        talks(&bench, &account, transport, ours, rate).await;
    }
}
