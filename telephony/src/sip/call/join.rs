//! Joins two legs: each hears the other, and both end together.

use tokio::{
    sync::{mpsc, watch},
    time::{Duration, Instant, timeout_at},
};

use super::SPEECH;
use crate::{
    leg::{Happening, Leg, Speech},
    media::fir::Resampler,
    voice::Phrase,
};

/// Limit for a sentence.
const SENTENCE: Duration = Duration::from_secs(8);
/// The mark behind the sentence.
const TOLD: u64 = u64::MAX;

/// The task's ends of the first leg's media channels.
#[derive(Debug)]
pub struct Ends {
    pub speech: mpsc::Receiver<Speech>,
    pub happenings: mpsc::Sender<Happening>,
}

/// The other ends of these channels.
#[derive(Debug)]
pub struct First {
    speech: mpsc::Sender<Speech>,
    happenings: mpsc::Receiver<Happening>,
}

pub fn ends() -> (Ends, First) {
    let (speech, spoken) = mpsc::channel(SPEECH);
    let (happenings, happened) = mpsc::channel(super::HAPPENINGS);
    let theirs = Ends {
        speech: spoken,
        happenings,
    };
    let ours = First {
        speech,
        happenings: happened,
    };
    (theirs, ours)
}

/// Passes audio until a leg ends, or until both have heard that the bridge stops. Returns the reason. Dropping the future drops
/// the second leg, which hangs it up.
pub async fn join(
    mut first: First,
    mut second: Leg,
    mut parting: watch::Receiver<Option<Instant>>,
    language: String,
) -> &'static str {
    let (mut up, mut down) = (Resampler::from_16_to_24(), Resampler::from_16_to_24());
    let by = loop {
        let goes_on = tokio::select! {
            happening = first.happenings.recv() => pass(happening, &mut up, &second.speech),
            happening = second.happenings.recv() => pass(happening, &mut down, &first.speech),
            Ok(by) = parting.wait_for(Option::is_some) => break *by,
        };
        if !goes_on {
            return "the other side hung up";
        }
    };
    let told = async {
        let (_, sentence) = Phrase::Sorry.spoken(&language);
        tokio::join!(
            tell(&sentence, &first.speech, &mut first.happenings),
            tell(&sentence, &second.speech, &mut second.happenings),
        )
    };
    let until = Instant::now() + SENTENCE;
    // A caller who holds the call does not hear it in any case.
    let _ = timeout_at(by.map_or(until, |by| by.min(until)), told).await;
    "The service stops."
}

/// Says a sentence and waits until it was played.
async fn tell(
    sentence: &[i16],
    speech: &mpsc::Sender<Speech>,
    happenings: &mut mpsc::Receiver<Happening>,
) {
    for said in [Speech::Audio(sentence.to_vec()), Speech::Mark(TOLD)] {
        if speech.send(said).await.is_err() {
            return;
        }
    }
    while let Some(happening) = happenings.recv().await {
        if happening == Happening::Played(TOLD) || is_end(&happening) {
            return;
        }
    }
}

fn is_end(happening: &Happening) -> bool {
    matches!(
        happening,
        Happening::HungUp | Happening::Failed(_) | Happening::MediaLost
    )
}

/// Passes one leg's event to the other; false if the leg has ended.
fn pass(
    happening: Option<Happening>,
    resampler: &mut Resampler,
    to: &mpsc::Sender<Speech>,
) -> bool {
    match happening {
        Some(Happening::Audio(samples)) => {
            let mut said = Vec::new();
            resampler.run(&samples, &mut said);
            // A gap is better than a queue.
            let _ = to.try_send(Speech::Audio(said));
            true
        }
        Some(Happening::Key(key)) => {
            let _ = to.try_send(Speech::Key(key));
            true
        }
        Some(happening) => !is_end(&happening),
        None => false,
    }
}
