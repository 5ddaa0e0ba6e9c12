//! Joins two legs: each hears the other, and both end together.

use tokio::sync::mpsc;

use super::SPEECH;
use crate::{
    leg::{Leg, LegEvent, Speech},
    media::fir::Resampler,
};

/// Part of a speech channel that is reserved for keys and announcements, which must not be lost.
const KEPT_FOR_KEYS: usize = 4;

/// The task's ends of the first leg's media channels.
#[derive(Debug)]
pub struct LegEnds {
    pub speech: mpsc::Receiver<Speech>,
    pub events: mpsc::Sender<LegEvent>,
}

/// The other ends of these channels.
#[derive(Debug)]
pub struct FirstLeg {
    speech: mpsc::Sender<Speech>,
    events: mpsc::Receiver<LegEvent>,
}

pub fn ends() -> (LegEnds, FirstLeg) {
    let (speech, spoken) = mpsc::channel(SPEECH);
    let (events, receiver) = mpsc::channel(super::EVENTS);
    let theirs = LegEnds {
        speech: spoken,
        events,
    };
    let ours = FirstLeg {
        speech,
        events: receiver,
    };
    (theirs, ours)
}

/// Why two legs are joined no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    PersonLeft,
    /// No media comes from one of them, or its media has failed.
    MediaLost,
}

/// Passes audio until a leg ends. Dropping the future drops the second leg, which hangs it up.
pub async fn join(
    mut first: FirstLeg,
    mut second: Leg,
    mut announcements: mpsc::Receiver<Vec<i16>>,
) -> Parting {
    let (mut up, mut down) = (Resampler::from_16_to_24(), Resampler::from_16_to_24());
    loop {
        tokio::select! {
            event = first.events.recv() => if !pass(event, &mut up, &second.speech) {
                return Parting::MediaLost;
            },
            event = second.events.recv() => {
                let end = match event {
                    Some(LegEvent::MediaLost) => Parting::MediaLost,
                    _ => Parting::PersonLeft,
                };
                if !pass(event, &mut down, &first.speech) {
                    return end;
                }
            }
            Some(samples) = announcements.recv() => {
                for speech in [&first.speech, &second.speech] {
                    // A leg that reads nothing is about to end.
                    let _ = speech.try_send(Speech::Audio(samples.clone()));
                }
            }
        }
    }
}

fn is_end(event: &LegEvent) -> bool {
    matches!(
        event,
        LegEvent::HungUp | LegEvent::Failed(_) | LegEvent::MediaLost
    )
}

/// Passes one leg's event to the other; false if the leg has ended.
fn pass(event: Option<LegEvent>, resampler: &mut Resampler, to: &mpsc::Sender<Speech>) -> bool {
    match event {
        Some(LegEvent::Audio(samples)) => {
            let mut said = Vec::new();
            resampler.run(&samples, &mut said);
            // A gap is better than a queue.
            if to.capacity() > KEPT_FOR_KEYS {
                let _ = to.try_send(Speech::Live(said));
            }
            true
        }
        Some(LegEvent::Key(key)) => {
            let _ = to.try_send(Speech::Key(key));
            true
        }
        Some(event) => !is_end(&event),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn media_that_is_lost_on_either_leg_is_told_apart_from_a_person_who_leaves() {
        use Parting::{MediaLost, PersonLeft};
        let left = LegEvent::HungUp;
        for (is_callers, event, expected) in [
            (true, LegEvent::MediaLost, MediaLost),
            (false, LegEvent::MediaLost, MediaLost),
            (false, left, PersonLeft),
        ] {
            let (theirs, ours) = ends();
            let (orders, _orders) = mpsc::channel(1);
            let (speech, _speech) = mpsc::channel(SPEECH);
            let (of_person, events) = mpsc::channel(1);
            let second = Leg {
                orders,
                speech,
                events,
            };
            let to = if is_callers {
                &theirs.events
            } else {
                &of_person
            };
            to.try_send(event).expect("room");
            let (_announcements, announced) = mpsc::channel(1);
            assert_eq!(join(ours, second, announced).await, expected);
        }
    }

    /// The media of a busy machine reads late.
    #[test]
    fn audio_that_waits_to_be_read_leaves_room_for_keys() {
        let (speech, mut spoken) = mpsc::channel(SPEECH);
        let mut resampler = Resampler::from_16_to_24();
        let mut heard = |event| assert!(pass(Some(event), &mut resampler, &speech));
        for _ in 0..100 {
            heard(LegEvent::Audio(vec![0; 320]));
        }
        heard(LegEvent::Key('5'));
        let mut keys = 0;
        while let Ok(said) = spoken.try_recv() {
            keys += usize::from(said == Speech::Key('5'));
        }
        assert_eq!(keys, 1);
    }
}
