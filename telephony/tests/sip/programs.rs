//! Calls by the phones and proxies that Debian has.

use std::{process::Command, time::Duration};

use dikala_telephony::{
    settings::{Credentials, Listen, Register, TlsFiles, Transport},
    sip::{self, Outcomes},
};
use tokio::io::AsyncWriteExt;

use crate::support::{Bench, Manner, Running, eventually, need, port, publicly};

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
        (statistics.invites, statistics.callers.answered),
        (100, 100),
        "{statistics:?}"
    );
    assert_eq!(
        statistics.callers,
        Outcomes {
            answered: 100,
            ..Outcomes::default()
        }
    );
    let answered: u64 = statistics.answer.counts.iter().sum();
    assert_eq!(answered, 100);
}

/// A baresip with one account, driven over its control port.
struct Baresip {
    folder: tempfile::TempDir,
    control: tokio::net::TcpStream,
    _running: Running,
}

impl Baresip {
    async fn new(account: &str, rate: &str, channels: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let made = Command::new("sox")
            .args(["-n", "-r", rate, "-c", channels, "-b", "16", "tone.wav"])
            .args(["synth", "20", "sine", "440"])
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
             audio_source aufile,{path}/tone.wav\nsnd_path {path}\nctrl_tcp_listen 127.0.0.1:{control}\nsip_listen 127.0.0.1:{sip}\n"
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        std::fs::write(folder.path().join("accounts"), format!("{account}\n")).unwrap();
        let mut baresip = Command::new("baresip");
        baresip.args(["-f", &path]).current_dir(folder.path());
        let mut running = Running::start(&mut baresip);
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

    async fn command(&mut self, command: &str, params: &str) {
        let json = serde_json::json!({ "command": command, "params": params }).to_string();
        let netstring = format!("{}:{json},", json.len());
        self.control.write_all(netstring.as_bytes()).await.unwrap();
    }

    /// How high what came was in its last second, by the file that baresip writes of what it decoded.
    fn hears(&self) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let dump = files
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|path| path.to_string_lossy().ends_with("-dec.wav"));
        let Some(bytes) = dump.and_then(|dump| std::fs::read(dump).ok()) else {
            return 0;
        };
        let Some((head, sound)) = bytes.split_at_checked(44) else {
            return 0;
        };
        let channels = usize::from(u16::from_le_bytes([head[22], head[23]]));
        let rate = u32::from_le_bytes([head[24], head[25], head[26], head[27]]);
        let samples: Vec<i16> = sound
            .chunks_exact(2 * channels)
            .map(|frame| i16::from_le_bytes([frame[0], frame[1]]))
            .collect();
        pitch(&samples, usize::try_from(rate).unwrap())
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

async fn talks(bench: &Bench, account: &str, transport: Transport, codec: &str) {
    let (rate, channels) = if codec == "opus" {
        ("48000", "2")
    } else {
        ("8000", "1")
    };
    let mut baresip = Baresip::new(account, rate, channels).await;
    let address = bench.address(transport);
    let transport = format!("{transport:?}").to_lowercase();
    let uri = format!("sip:+622150001000@{address};transport={transport}");
    let before = bench.calls().len();
    baresip.command("dial", &uri).await;
    eventually("the edge hears the tone", || {
        bench
            .calls()
            .get(before)
            .is_some_and(|call| (420..460).contains(&pitch(&call.audio, 16_000)))
    })
    .await;
    eventually("the phone hears the tone", || {
        (420..460).contains(&baresip.hears())
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
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("server.pem"),
        key: folder.path().join("server.key"),
    };
    let certificate = include_bytes!("../../../testkit/src/certificate/server.pem");
    std::fs::write(&files.certificate, certificate).unwrap();
    std::fs::write(
        &files.key,
        include_bytes!("../../../testkit/src/certificate/server.key"),
    )
    .unwrap();
    let bench = Bench::with(Manner::Echo, 10, |sip| {
        sip.tls = Some(files.clone());
        sip.listen.push(Listen {
            transport: Transport::Tls,
            address: "127.0.0.1:0".parse().unwrap(),
        });
    })
    .await;
    // What cannot be read leaves what was there.
    std::fs::write(&files.certificate, "rubbish").unwrap();
    bench.edge.reload_tls().unwrap_err();
    for (transport, codec, encryption) in [
        (Transport::Udp, "PCMA", ""),
        (Transport::Tcp, "PCMU", ""),
        (Transport::Tls, "PCMA", ""),
        (Transport::Udp, "opus", ""),
        (Transport::Tcp, "PCMA", ";mediaenc=srtp-mand"),
        (Transport::Tls, "opus", ";mediaenc=srtp-mand"),
    ] {
        let named = if codec == "opus" {
            "opus/48000/2"
        } else {
            codec
        };
        let account = format!("<sip:budi@127.0.0.1>;regint=0;audio_codecs={named}{encryption}");
        talks(&bench, &account, transport, codec).await;
    }
    std::fs::write(&files.certificate, certificate).unwrap();
    bench.edge.reload_tls().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn baresip_proves_itself() {
    if !need("baresip") || !need("sox") {
        return;
    }
    let bench = Bench::with(Manner::Echo, 10, |sip| sip.trunks = Bench::of_users()).await;
    let account = "<sip:ayu@127.0.0.1>;regint=0;auth_user=ayu;auth_pass=rahasia;audio_codecs=PCMA";
    talks(&bench, account, Transport::Udp, "PCMA").await;
}

/// A registrar and proxy that wants to stay on the way, with one account.
fn kamailio(folder: &std::path::Path, port: u16) -> Running {
    let config = format!(
        r#"#!KAMAILIO
debug=1
log_stderror=yes
fork=no
children=2
disable_tcp=no
auto_aliases=no
listen=udp:127.0.0.1:{port}
listen=tcp:127.0.0.1:{port}
mpath="/usr/lib/x86_64-linux-gnu/kamailio/modules/:/usr/lib/aarch64-linux-gnu/kamailio/modules/"
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "auth.so"
modparam("registrar", "min_expires", 60)
request_route {{
    if (is_method("REGISTER")) {{
        if (!pv_www_authenticate("trunk", "rahasia", "0")) {{
            www_challenge("trunk", "1");
            exit;
        }}
        save("location");
        exit;
    }}
    if (has_totag()) {{
        if (loose_route()) {{
            t_relay();
        }} else if (is_method("ACK")) {{
            if (t_check_trans()) t_relay();
        }} else {{
            sl_send_reply("404", "Not Here");
        }}
        exit;
    }}
    if (is_method("CANCEL")) {{
        if (t_check_trans()) t_relay();
        exit;
    }}
    record_route();
    $ru = "sip:dikala@127.0.0.1";
    if (!lookup("location")) {{
        sl_send_reply("404", "Not Registered");
        exit;
    }}
    t_relay();
}}
"#
    );
    let path = folder.join("kamailio.cfg");
    std::fs::write(&path, config).unwrap();
    let mut kamailio = Command::new("kamailio");
    kamailio
        .args([
            "-DD",
            "-E",
            "-m",
            "16",
            "-M",
            "4",
            "-f",
            path.to_str().unwrap(),
            "-Y",
            folder.to_str().unwrap(),
        ])
        .arg("-P")
        .arg(folder.join("pid"))
        .current_dir(folder);
    Running::start(&mut kamailio)
}

const ROUTED: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="through a proxy, hung up by the other side">
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:+62811222333@[local_ip]:[local_port]>;tag=[pid]s[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Contact: <sip:1001@[local_ip]:[local_port]>
      Max-Forwards: 70
      Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=- 1 1 IN IP4 [local_ip]
      s=-
      c=IN IP4 [media_ip]
      t=0 0
      m=audio [media_port] RTP/AVP 0
      a=rtpmap:0 PCMU/8000

  ]]></send>
  <recv response="100" optional="true"></recv>
  <recv response="180" optional="true"></recv>
  <recv response="200" rrs="true"></recv>
  <send><![CDATA[
      ACK [next_url] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [routes]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 1 ACK
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>
  <recv request="BYE"></recv>
  <send><![CDATA[
      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

  ]]></send>
</scenario>
"#;

#[tokio::test(flavor = "multi_thread")]
async fn we_register_at_kamailio_and_calls_come_through_it() {
    if !need("kamailio") || !need("sipp") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for transport in ["udp", "tcp"] {
        let at = port();
        let _kamailio = kamailio(folder.path(), at);
        let register = |password: &str| Register {
            registrar: format!("sip:127.0.0.1:{at};transport={transport}"),
            credentials: Credentials {
                username: "dikala".to_owned(),
                password: password.to_owned(),
            },
            expires_seconds: 120,
        };
        let bench = Bench::with(Manner::HangUp, 10, |sip| {
            sip.trunks = Bench::of_users();
            sip.trunks[0].credentials = None;
            sip.trunks[0].register = Some(register("rahasia"));
        })
        .await;
        eventually("it is registered", || {
            bench.edge.statistics().registered_trunks == 1
        })
        .await;
        if transport == "udp" {
            sip::try_registrar("jkt", &register("rahasia"), publicly())
                .await
                .unwrap();
            let refused = sip::try_registrar("jkt", &register("salah"), publicly())
                .await
                .unwrap_err();
            assert!(
                refused.to_string().contains("username or password"),
                "{refused}"
            );
        }
        let scenario = folder.path().join("routed.xml");
        std::fs::write(&scenario, ROUTED).unwrap();
        let mut sipp = Command::new("sipp");
        sipp.current_dir(folder.path())
            .args([
                "-sf",
                scenario.to_str().unwrap(),
                "-m",
                "5",
                "-r",
                "10",
                "-s",
                "+622150001000",
            ])
            .args([
                "-i",
                "127.0.0.1",
                "-timeout",
                "15",
                "-timeout_error",
                "-nostdin",
            ])
            .arg(format!("127.0.0.1:{at}"));
        assert!(
            Running::start(&mut sipp).end(Duration::from_secs(30)).await,
            "{transport}"
        );
        let call = bench.calls().pop().unwrap();
        assert_eq!(
            (call.did.as_str(), call.caller.as_str()),
            ("+622150001000", "+62811222333")
        );
        assert_eq!(bench.calls().len(), 5);
        bench.edge.close().await;
    }
}
