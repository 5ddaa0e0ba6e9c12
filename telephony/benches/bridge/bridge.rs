//! The bridge as a separate process, and its measurements from outside.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use dikala_entities::{Millis, Secret};
use dikala_protocol::client::Address;
use dikala_sip::settings::{Codec, ListenAddress, SipSettings, SipTransport, Srtp, Trunk};
use dikala_telephony::{
    settings::{BridgeSettings, GeminiSettings, Prices, Voice},
    threads::BridgeThreads,
};
use dikala_testkit::certificate;
use tempfile::NamedTempFile;

use crate::flood;

/// The argument with which this program runs the bridge.
pub const ROLE: &str = "the-bridge";

/// Runs a bridge until standard input ends. Each input line is answered with the current counts.
pub fn serve(arguments: &[String]) {
    let [service, model, codec, authority] = arguments else {
        panic!("service, model, codec, authority of the model");
    };
    let address = Address {
        url: service.clone(),
        token: Secret::new("dkb_bench"),
    };
    // The date does not matter here.
    let began = Instant::now();
    let clock = Arc::new(move || {
        let since = i64::try_from(began.elapsed().as_millis());
        Millis::MIN.plus_ms(since.unwrap())
    });
    let codec = if codec == "Opus" {
        Codec::Opus
    } else {
        Codec::Pcma
    };
    let settings = settings(model, codec, authority);
    let running = BridgeThreads::start(&settings, address, clock).unwrap();
    println!("{}", running.addresses()[0].address);
    let counted = running.counted();
    for _ in std::io::stdin().lines() {
        let sip = counted.read().sip;
        println!("{} {}", sip.ticks, sip.ticks_late);
    }
}

fn settings(model: &str, codec: Codec, authority: &str) -> BridgeSettings {
    let prices = Prices {
        text_in: 1,
        audio_in: 1,
        text_out: 1,
        audio_out: 1,
        ..Prices::default()
    };
    let gemini = GeminiSettings {
        url: model.to_owned(),
        api_key: "key".to_owned(),
        model: "gemini-3.8-live".to_owned(),
        prices,
    };
    BridgeSettings {
        sip: SipSettings {
            threads: 2,
            max_calls: 1_000,
            listen: vec![ListenAddress {
                transport: SipTransport::Udp,
                address: (Ipv4Addr::LOCALHOST, 0).into(),
            }],
            public_address: None,
            local_networks: Vec::new(),
            tls: None,
            rtp_ports: 20_000..=29_999,
            codecs: vec![codec],
            srtp: Srtp::Off,
            trunks: vec![trunk("here", "127.0.0.1"), trunk("forged", flood::FORGED)],
            nameservers: Vec::new(),
        },
        voice: Voice::gemini(gemini),
        shutdown_seconds: 1,
        engine_lost_after_seconds: 30,
        extra_ca_file: Some(authority.into()),
    }
}

fn trunk(name: &str, address: &str) -> Trunk {
    Trunk {
        name: name.to_owned(),
        addresses: vec![format!("{address}/32").parse().unwrap()],
        ..Trunk::default()
    }
}

#[derive(Debug)]
pub struct BridgeProcess {
    child: Child,
    asks: ChildStdin,
    tells: BufReader<ChildStdout>,
    pub edge: SocketAddr,
    /// The authority of the model's certificate.
    _authority: NamedTempFile,
}

impl BridgeProcess {
    pub fn start(service: String, model: String, codec: Codec) -> Self {
        let authority = NamedTempFile::new().unwrap();
        fs::write(authority.path(), certificate::AUTHORITY).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([ROLE, &service, &model, &format!("{codec:?}")])
            .arg(authority.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut tells = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tells.read_line(&mut line).unwrap();
        Self {
            asks: child.stdin.take().unwrap(),
            child,
            tells,
            edge: line.trim().parse().unwrap(),
            _authority: authority,
        }
    }

    /// Ticks so far, and those that were late.
    pub fn ticks(&mut self) -> (u64, u64) {
        writeln!(self.asks).unwrap();
        let mut line = String::new();
        self.tells.read_line(&mut line).unwrap();
        let (ticks, late) = line.trim().split_once(' ').unwrap();
        (ticks.parse().unwrap(), late.parse().unwrap())
    }

    /// CPU time of its threads, kernel time included.
    pub fn cpu_us(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let on_cpu = threads.map(|thread| {
            let schedstat = fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
            schedstat.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        on_cpu.sum::<u64>() / 1_000
    }

    /// Resident memory.
    pub fn memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        resident
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }
}

impl Drop for BridgeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
