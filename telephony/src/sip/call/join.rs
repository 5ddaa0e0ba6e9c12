//! Two legs made one call: what each says the other hears, and when one ends so does the other.

use tokio::sync::mpsc;

use super::SPEECH;
use crate::{
    leg::{Happening, Leg, Speech},
    media::fir::Resampler,
};

/// The ends of the first leg's media, which its task gives up.
#[derive(Debug)]
pub struct Ends {
    pub speech: mpsc::Receiver<Speech>,
    pub happenings: mpsc::Sender<Happening>,
}

/// Ours of them.
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

/// Goes on until one of both is gone. Dropping it drops the second leg, which is hung up.
pub async fn join(mut first: First, mut second: Leg) {
    let (mut up, mut down) = (Resampler::from_16_to_24(), Resampler::from_16_to_24());
    loop {
        let goes_on = tokio::select! {
            happening = first.happenings.recv() => pass(happening, &mut up, &second.speech),
            happening = second.happenings.recv() => pass(happening, &mut down, &first.speech),
        };
        if !goes_on {
            return;
        }
    }
}

/// Says to the one what was heard of the other; false when there is nothing more to hear.
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
        None | Some(Happening::HungUp | Happening::Failed(_) | Happening::MediaLost) => false,
        Some(_) => true,
    }
}
