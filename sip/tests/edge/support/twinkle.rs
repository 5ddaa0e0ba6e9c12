//! Twinkle's console program from Debian. PulseAudio is its sound card: a tone is played into `mouth`, and `ear` is recorded.

use std::{
    io::Write,
    path::Path,
    process::{ChildStdin, Command},
};

use super::{ChildProgram, Recording, eventually, make_tone, port};

/// A twinkle-console that registers nowhere.
pub struct Twinkle {
    /// At 8 kHz.
    pub heard: Recording,
    _folder: tempfile::TempDir,
    commands: ChildStdin,
    _running: [ChildProgram; 4],
}

impl Twinkle {
    /// `keys`: how it sends keys, `rfc2833`, `inband` or `info`.
    pub async fn new(caller: &str, keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        make_tone(path);
        let sound = sound_card(path);
        let server = format!("unix:{}", path.join("sound").display());
        eventually("PulseAudio listens", || path.join("sound").exists()).await;
        let mut player = Command::new("paplay");
        player.args(["--device=mouth", "tone.wav"]);
        let mut recorder = Command::new("parec");
        recorder
            .args(["--raw", "--format=s16le", "--rate=8000", "--channels=1"])
            .args(["--latency-msec=20", "--device=ear.monitor", "heard.raw"]);
        let [player, recorder] = [player, recorder].map(|mut program| {
            program
                .current_dir(path)
                .env("HOME", path)
                .env("PULSE_SERVER", &server);
            ChildProgram::start(&mut program)
        });
        configure(path, caller, keys, &server);
        let mut twinkle = Command::new("twinkle-console");
        twinkle.arg("phone.cfg").current_dir(path).env("HOME", path);
        let (twinkle, commands) = ChildProgram::fed(&mut twinkle);
        Self {
            heard: Recording(folder.path().join("heard.raw")),
            _folder: folder,
            commands,
            _running: [twinkle, player, recorder, sound],
        }
    }

    pub fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }
}

fn sound_card(folder: &Path) -> ChildProgram {
    let devices = format!(
        "load-module module-native-protocol-unix auth-anonymous=1 socket={}\n\
         load-module module-null-sink sink_name=mouth rate=8000 channels=1 format=s16le\n\
         load-module module-null-sink sink_name=ear rate=8000 channels=1 format=s16le\n",
        folder.join("sound").display()
    );
    std::fs::write(folder.join("devices.pa"), devices).unwrap();
    let mut pulseaudio = Command::new("pulseaudio");
    pulseaudio
        .args(["-n", "--daemonize=no", "--use-pid-file=no"])
        // With shared memory it sometimes aborts on a busy machine (pulseaudio#824).
        .arg("--disable-shm=yes")
        .args(["--exit-idle-time=-1", "-F", "devices.pa"])
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_RUNTIME_DIR", folder)
        .env("PULSE_RUNTIME_PATH", folder.join("pulse"));
    ChildProgram::start(&mut pulseaudio)
}

/// Its filters would take the tone for noise.
fn configure(folder: &Path, caller: &str, keys: &str, server: &str) {
    let device = |name, device| {
        format!("pcm.{name} {{ type pulse server \"{server}\" device \"{device}\" }}\n")
    };
    let devices = device("mouth", "mouth.monitor") + &device("ear", "ear");
    std::fs::write(folder.join(".asoundrc"), devices).unwrap();
    let (sip, rtp) = (port(), port());
    let system = format!(
        "dev_ringtone=alsa:ear\ndev_speaker=alsa:ear\ndev_mic=alsa:mouth\n\
         sip_udp_port={sip}\nsip_tcp_port={sip}\nrtp_port={rtp}\nplay_ringtone=no\nplay_ringback=no\n"
    );
    let phone = format!(
        "user_name={caller}\nuser_domain=127.0.0.1\nuser_display=\ncodecs=g711a\ndtmf_transport={keys}\n\
         speex_dsp_vad=no\nspeex_dsp_agc=no\nspeex_dsp_aec=no\nspeex_dsp_nrd=no\n\
         sip_transport=udp\nregister_at_startup=no\n"
    );
    let own = folder.join(".twinkle");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("twinkle.sys"), system).unwrap();
    std::fs::write(own.join("phone.cfg"), phone).unwrap();
}
