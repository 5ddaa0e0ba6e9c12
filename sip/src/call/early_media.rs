//! Early media of a second leg: audio that the person's side sends before it answers, such as ringing or an announcement.

use std::{net::IpAddr, sync::Arc};

use tokio::sync::mpsc;

use super::{
    Control, EVENTS, MediaSockets, SPEECH,
    media_task::{self, MediaHandle},
};
use crate::{
    leg::{LegEvent, Speech},
    media::{fir::Resampler, sdp::MediaTerms},
    quality::LegRole,
    shared::Shared,
};

/// Frames of zeros in a row, about 1 s, after which the caller hears the ring tone again: the receiver fills in silence for ever.
const ZEROS_MAX: u32 = 50;

/// Quieter samples are silence, that of A-law (±8) too.
const SOFTEST: u16 = 16;

/// The media of a leg that is not answered yet.
#[derive(Debug)]
pub struct UnansweredMedia {
    /// `None` once the media is started.
    pub sockets: Option<MediaSockets>,
    pub spoken: Option<mpsc::Receiver<Speech>>,
    pub media: Option<MediaHandle>,
    pub speech: mpsc::Sender<Speech>,
    pub events: mpsc::Sender<LegEvent>,
    pub received: mpsc::Receiver<LegEvent>,
    /// The media of the caller, who hears it. Weak, because a strong sender would keep that media alive after the caller's call.
    caller: Option<mpsc::WeakSender<Control>>,
    /// The id of the call.
    id: Arc<str>,
    /// The terms of the media, and the source address of their signalling.
    terms: Option<(MediaTerms, IpAddr)>,
    resampler: Resampler,
    /// Frames of zeros in a row.
    zeros: u32,
}

impl UnansweredMedia {
    pub fn new(
        sockets: MediaSockets,
        caller: Option<mpsc::WeakSender<Control>>,
        id: Arc<str>,
    ) -> Self {
        let (speech, spoken) = mpsc::channel(SPEECH);
        let (events, received) = mpsc::channel(EVENTS);
        Self {
            sockets: Some(sockets),
            spoken: Some(spoken),
            media: None,
            speech,
            events,
            received,
            caller,
            id,
            terms: None,
            resampler: Resampler::from_16_to_24(),
            // Silence before the first sound does not replace the ring tone.
            zeros: ZEROS_MAX,
        }
    }

    /// Starts the media, or changes it to new terms. A failure is left to the answer.
    pub async fn begin(&mut self, shared: &Arc<Shared>, terms: MediaTerms, signalling: IpAddr) {
        let agreed = Some((terms.clone(), signalling));
        if self.terms == agreed {
            return;
        }
        self.terms = agreed;
        if let Some(media) = &self.media {
            let change = Control::Change(Box::new(terms), signalling);
            let _ = media.control.send(change).await;
            return;
        }
        let (Some(sockets), Some(spoken)) = (self.sockets.take(), self.spoken.take()) else {
            return;
        };
        let events = self.events.clone();
        let reporter = shared.qualities.reporter(self.id.clone(), LegRole::Person);
        let started =
            media_task::start(shared, sockets, terms, signalling, spoken, events, reporter);
        match started {
            Ok(media) => {
                let _ = media.control.send(Control::BeginEarly).await;
                self.media = Some(media);
            }
            Err(error) => tracing::debug!(%error, "early media cannot be started"),
        }
    }

    /// Ends the media and frees its ports.
    pub fn end(&mut self) {
        self.media = None;
        self.sockets = None;
    }

    /// Drops the events from before the answer, which are not about the answered leg.
    pub fn drop_received(&mut self) {
        while self.received.try_recv().is_ok() {}
    }

    /// Waits for the next 20 ms, and passes it to the caller.
    pub async fn pass(&mut self) {
        let (Some(LegEvent::Audio(samples)), Some(caller)) =
            (self.received.recv().await, &self.caller)
        else {
            return;
        };
        let is_silent = samples
            .iter()
            .all(|sample| sample.unsigned_abs() <= SOFTEST);
        self.zeros = if is_silent { self.zeros + 1 } else { 0 };
        if self.zeros > ZEROS_MAX {
            self.zeros = ZEROS_MAX;
            return;
        }
        let mut said = Vec::new();
        self.resampler.run(&samples, &mut said);
        // A gap is better than a queue.
        if let Some(caller) = caller.upgrade() {
            let _ = caller.try_send(Control::Early(said));
        }
    }
}
