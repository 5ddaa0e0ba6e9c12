//! A voice without a model, for tests: it greets, asks, calls one function, reads out the outcome, and says goodbye.
//!
//! It understands no speech: it detects by loudness that the caller speaks, and accepts keys. It speaks the sentences of
//! [`super::Phrase`]. With it, a telephone can be tried and a bridge tested without an API key.

mod arguments;
mod script;
mod speech_detector;

use std::time::Duration;

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use self::script::VoiceScript;
use super::{Provider, VoiceEvent, VoiceInput, VoiceSession, VoiceSetup};

/// Messages that may wait in either direction.
const CHANNEL: usize = 256;

#[derive(Debug, Clone, Copy)]
pub struct Scripted;

impl Provider for Scripted {
    fn open(&self, setup: VoiceSetup) -> VoiceSession {
        let (spoken, listening) = mpsc::channel(CHANNEL);
        let (speaking, heard) = mpsc::channel(CHANNEL);
        tokio::spawn(run(setup, listening, speaking));
        VoiceSession { spoken, heard }
    }
}

async fn run(
    setup: VoiceSetup,
    mut listening: mpsc::Receiver<VoiceInput>,
    speaking: mpsc::Sender<VoiceEvent>,
) {
    let epoch = Instant::now();
    let now_ms = || u64::try_from(epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (mut script, mut said) =
        VoiceScript::begin(setup.agent, !setup.so_far.is_empty(), now_ms());
    loop {
        for heard in said {
            if speaking.send(heard).await.is_err() {
                return;
            }
        }
        let due = script.due().unwrap_or(u64::MAX).min(now_ms() + 60_000);
        said = tokio::select! {
            spoken = listening.recv() => match spoken {
                Some(spoken) => script.hear(spoken, now_ms()),
                None => return,
            },
            () = sleep_until(epoch + Duration::from_millis(due)) => script.wait(now_ms()),
            () = speaking.closed() => return,
        };
    }
}
