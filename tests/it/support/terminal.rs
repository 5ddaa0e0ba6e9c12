//! A pseudo-terminal with a shell, made by `script`.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use dikala_testkit::{PATIENCE, eventually, within};

use super::server::Installation;

/// A running terminal; killed when dropped.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    shown: Arc<Mutex<String>>,
    /// Ends together with the output.
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Runs shell lines in the installation's folder with its settings. `dikala` is the program.
    pub fn run(installation: &Installation, lines: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_dikala");
        let lines = format!("stty rows 40 cols 120\ndikala() {{ {program} \"$@\"; }}\n{lines}");
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &lines])
            .arg("/dev/null")
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "TMPDIR"))
            .envs([("TERM", "xterm"), ("SHELL", "/bin/sh"), ("LANG", "C.UTF-8")])
            .env("HOME", installation.folder.path())
            .envs(
                installation
                    .settings
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .current_dir(installation.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, seen) = (child.stdout.take().unwrap(), Arc::clone(&shown));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                seen.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self {
            keyboard: child.stdin.take().unwrap(),
            child,
            shown,
            reader,
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// The whole output so far.
    pub fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until a text was printed; returns the whole output.
    pub async fn shows(&self, text: &str) -> String {
        eventually(&format!("{text:?} on the terminal"), async || {
            let shown = self.shown();
            shown.contains(text).then_some(shown)
        })
        .await
    }

    /// Waits for the end; returns the whole output and the exit code.
    pub async fn ended(mut self) -> (String, Option<i32>) {
        let status = within(PATIENCE, "the terminal to end", async || {
            self.child.try_wait().unwrap()
        })
        .await;
        eventually("the last of what is shown", async || {
            self.reader.is_finished().then_some(())
        })
        .await;
        (self.shown(), status.code())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("--- the terminal ---\n{:?}\n---", self.shown());
        }
    }
}
