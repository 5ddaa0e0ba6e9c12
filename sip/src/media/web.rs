//! The media of a call from a browser, pure: 16-bit PCM, mono, over a connection that keeps the order and loses nothing.
//!
//! Frames of 20 ms are sent in real time, [`AHEAD_MS`] before they are due, so little waits in the browser. When the agent pauses,
//! the browser drops what it has, and gets it again afterwards.

use std::collections::VecDeque;

use super::{
    activity::VoiceChange,
    caller_voice::CallerVoice,
    echo::EchoGuard,
    playout::{PLAYED_PER_MS, Playout, PlayoutRate},
};
use crate::leg::{LegEvent, Speech};

/// Samples in 20 ms at [`crate::leg::CALLER_RATE`].
const FRAME: usize = 320;
const FRAME_MS: u64 = 20;
/// Speech that the browser has before it is due, because the delay of a connection varies.
const AHEAD_MS: u64 = 200;
/// Audio that may come earlier than in real time.
const EARLY_MAX_MS: u64 = 5_000;
/// Missing audio that may come later at once: a slow or broken connection brings what the browser kept for it, at most 15 s.
const KEPT_MAX_MS: u64 = 15_000;
/// Audio that is missing for longer than this for that long will not come any more.
const LATE_MS: u64 = 300;
const CATCH_UP_MS: u64 = 2_000;
/// Without audio for this long the browser is gone.
const SILENCE_MAX_MS: u64 = 15_000;

/// Why a browser's connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebFault {
    /// It sends more audio than can be spoken.
    TooFast,
    /// It has sent no audio for 15 s.
    Silent,
    /// Audio of a length that is no whole number of samples.
    Odd,
}

/// The media of one call.
#[derive(Debug)]
pub struct WebMedia {
    playout: Playout,
    caller: CallerVoice,
    echo: EchoGuard,
    /// Received samples that do not fill a frame yet.
    pending: Vec<i16>,
    began_ms: u64,
    /// Length of the received audio, and of that which will not come any more.
    received_ms: u64,
    /// Audio that may come now, and when it was counted last.
    allowed_ms: u64,
    counted_at_ms: u64,
    /// Since when audio is missing.
    late_since_ms: Option<u64>,
    /// When audio came last.
    heard_at_ms: u64,
    /// When the next frame is due.
    due_ms: u64,
    frame: Vec<i16>,
    /// Speech that was sent and is not played yet, with the time at which it is over.
    ahead: VecDeque<(u64, Sent)>,
    /// Speech that the browser dropped for a pause, and gets again.
    again: VecDeque<Sent>,
    /// Speech that was sent and discarded by the browser, in [`PLAYED_PER_MS`].
    unheard: u64,
    /// The count of played speech that the browser told, and when.
    reported: Option<(u64, u64)>,
    /// The last reported count of played speech, which never decreases.
    played_ms: u64,
}

/// A part of the agent's speech.
#[derive(Debug)]
enum Sent {
    /// With the part of it that counts as played, in [`PLAYED_PER_MS`].
    Frame(Vec<i16>, u64),
    Mark(u64),
}

impl WebMedia {
    pub fn new(now_ms: u64) -> Self {
        Self {
            playout: Playout::new(PlayoutRate::Full),
            caller: CallerVoice::default(),
            echo: EchoGuard::default(),
            pending: Vec::new(),
            began_ms: now_ms,
            received_ms: 0,
            allowed_ms: EARLY_MAX_MS,
            counted_at_ms: now_ms,
            late_since_ms: None,
            heard_at_ms: now_ms,
            due_ms: now_ms,
            frame: Vec::new(),
            ahead: VecDeque::new(),
            again: VecDeque::new(),
            unheard: 0,
            reported: None,
            played_ms: 0,
        }
    }

    /// False while 30 s of speech wait.
    pub fn wants_speech(&self) -> bool {
        self.playout.wants_more()
    }

    /// Queues speech. A browser takes no keys.
    pub fn say(&mut self, speech: &Speech) {
        match speech {
            Speech::Audio(samples) => self.playout.say(samples),
            Speech::Live(samples) => self.playout.say_live(samples),
            Speech::Mark(mark) => self.playout.mark(*mark),
            Speech::Key(_) => {}
        }
    }

    /// Takes audio of the browser: little-endian samples at 16 kHz, of any length.
    ///
    /// Errors: the connection is to be closed.
    pub fn hear(
        &mut self,
        bytes: &[u8],
        now_ms: u64,
        events: &mut Vec<LegEvent>,
    ) -> Result<(), WebFault> {
        let (samples, rest) = bytes.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(WebFault::Odd);
        }
        if !samples.is_empty() {
            self.heard_at_ms = now_ms;
        }
        self.pending
            .extend(samples.iter().map(|sample| i16::from_le_bytes(*sample)));
        let mut taken = 0;
        while let Some(frame) = self.pending.get(taken..taken + FRAME) {
            taken += FRAME;
            let at_ms = self.began_ms + self.received_ms;
            self.received_ms += FRAME_MS;
            let at_ms = Some(at_ms.min(now_ms));
            let heard = self.caller.hear(frame, &mut self.echo, at_ms);
            if !heard.released.is_empty() {
                events.push(LegEvent::Audio(heard.released));
            }
            events.push(LegEvent::Audio(match heard.is_hidden {
                true => vec![0; FRAME],
                false => frame.to_vec(),
            }));
            events.extend(heard.change.map(|change| match change {
                VoiceChange::Started => LegEvent::VoiceStarted,
                VoiceChange::Ended => LegEvent::VoiceEnded,
            }));
        }
        self.pending.drain(..taken);
        let elapsed_ms = now_ms.saturating_sub(self.began_ms);
        self.catch_up(elapsed_ms, now_ms);
        let passed_ms = now_ms.saturating_sub(self.counted_at_ms);
        self.counted_at_ms = now_ms;
        let allowed_ms = (self.allowed_ms + passed_ms).min(EARLY_MAX_MS + KEPT_MAX_MS);
        let heard_ms = (taken / FRAME) as u64 * FRAME_MS;
        self.allowed_ms = allowed_ms.checked_sub(heard_ms).ok_or(WebFault::TooFast)?;
        Ok(())
    }

    /// Audio that was never sent leaves the count behind. A connection that stood still brings its audio soon.
    fn catch_up(&mut self, elapsed_ms: u64, now_ms: u64) {
        if self.received_ms + LATE_MS >= elapsed_ms {
            self.late_since_ms = None;
            return;
        }
        let since_ms = *self.late_since_ms.get_or_insert(now_ms);
        if now_ms - since_ms >= CATCH_UP_MS {
            self.received_ms = elapsed_ms;
            self.late_since_ms = None;
        }
    }

    /// Sends the frames that are due, and reports what was played. Frames of silence are left out.
    ///
    /// Errors: the connection is to be closed.
    pub fn tick(
        &mut self,
        now_ms: u64,
        events: &mut Vec<LegEvent>,
        mut send: impl FnMut(Vec<u8>),
    ) -> Result<(), WebFault> {
        if now_ms.saturating_sub(self.heard_at_ms) >= SILENCE_MAX_MS {
            return Err(WebFault::Silent);
        }
        // A process that stood still does not catch up.
        self.due_ms = self.due_ms.max(now_ms);
        while self.due_ms <= now_ms + AHEAD_MS && self.next() {
            if let Some((_, Sent::Frame(frame, _))) = self.ahead.iter().rev().find(is_frame) {
                let samples = frame.iter();
                send(samples.flat_map(|sample| sample.to_le_bytes()).collect());
            }
            self.due_ms += FRAME_MS;
        }
        self.report(now_ms, events);
        Ok(())
    }

    /// Moves the next 20 ms of speech, with the marks around it, to what is sent. False if there is no speech.
    fn next(&mut self) -> bool {
        let (ahead, over_ms) = (&mut self.ahead, self.due_ms + FRAME_MS);
        if !self.playout.is_paused() {
            while let Some(sent) = self.again.pop_front() {
                let is_frame = matches!(sent, Sent::Frame(..));
                ahead.push_back((if is_frame { over_ms } else { self.due_ms }, sent));
                if is_frame {
                    return true;
                }
            }
        }
        let (speaks, before) = (self.playout.speaks(), self.playout.played());
        let mut marks = Vec::new();
        self.playout.frame(&mut self.frame, |mark| marks.push(mark));
        let played = self.playout.played() - before;
        if speaks {
            ahead.push_back((over_ms, Sent::Frame(self.frame.clone(), played)));
        }
        let passed_ms = if speaks { over_ms } else { self.due_ms };
        ahead.extend(marks.into_iter().map(|mark| (passed_ms, Sent::Mark(mark))));
        speaks
    }

    fn report(&mut self, now_ms: u64, events: &mut Vec<LegEvent>) {
        while let Some((over, sent)) = self.ahead.pop_front_if(|(over, _)| *over <= now_ms) {
            match sent {
                Sent::Frame(frame, _) => self.echo.sent(&frame, over - FRAME_MS),
                Sent::Mark(mark) => events.push(LegEvent::Played(mark)),
            }
        }
    }

    /// The browser says how much of the agent's speech it has played since the call began, in milliseconds.
    pub fn played(&mut self, ms: u64, now_ms: u64) {
        self.reported = Some((ms, now_ms));
    }

    /// Pauses the speech. The browser has to drop what it has.
    pub fn pause(&mut self, now_ms: u64, events: &mut Vec<LegEvent>) {
        self.report(now_ms, events);
        self.playout.pause();
        let unplayed = self.ahead.drain(..).map(|(_, sent)| sent);
        for sent in unplayed.rev() {
            self.again.push_front(sent);
        }
        self.due_ms = now_ms;
    }

    /// Goes on after a pause.
    pub fn go_on(&mut self) {
        self.playout.go_on();
    }

    /// Discards queued speech. The browser has to drop what it has, too.
    pub fn flush(&mut self, now_ms: u64, events: &mut Vec<LegEvent>) {
        self.report(now_ms, events);
        let again = std::mem::take(&mut self.again);
        let ahead = self.ahead.drain(..).map(|(_, sent)| sent);
        for sent in ahead.chain(again) {
            match sent {
                Sent::Frame(_, played) => self.unheard += played,
                Sent::Mark(mark) => events.push(LegEvent::Played(mark)),
            }
        }
        // Without a faded end, which the browser makes itself.
        self.playout.pause();
        self.playout
            .flush(|mark| events.push(LegEvent::Played(mark)));
        self.due_ms = now_ms;
        let ours = self.playout.played().saturating_sub(self.unheard) / PLAYED_PER_MS;
        let theirs = self.reported.map_or(ours, |(played, at)| {
            played.saturating_add(now_ms.saturating_sub(at))
        });
        self.played_ms = ours.min(theirs).max(self.played_ms);
        events.push(LegEvent::Flushed {
            total_played_ms: self.played_ms,
        });
    }
}

fn is_frame((_, sent): &&(u64, Sent)) -> bool {
    matches!(sent, Sent::Frame(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of a loud tone at 24 kHz.
    fn second() -> Speech {
        let tone = (0..24_000).map(|n| if n % 48 < 24 { 8_000 } else { -8_000 });
        Speech::Audio(tone.collect())
    }

    struct Browser {
        media: WebMedia,
        now_ms: u64,
        sent: usize,
        events: Vec<LegEvent>,
    }

    impl Browser {
        fn new() -> Self {
            Self {
                media: WebMedia::new(1_000),
                now_ms: 1_000,
                sent: 0,
                events: Vec::new(),
            }
        }

        /// Lets time pass, in which the browser sends silence.
        fn pass(&mut self, ms: u64) {
            for _ in 0..ms / FRAME_MS {
                let silence = [0; FRAME * 2];
                self.media
                    .hear(&silence, self.now_ms, &mut self.events)
                    .expect("in time");
                let sent = &mut self.sent;
                self.media
                    .tick(self.now_ms, &mut self.events, |frame| {
                        assert_eq!(frame.len(), 960);
                        *sent += 1;
                    })
                    .expect("it is heard");
                self.now_ms += FRAME_MS;
            }
            self.events
                .retain(|event| !matches!(event, LegEvent::Audio(_)));
        }
    }

    #[test]
    fn speech_is_sent_in_real_time_a_little_ahead() {
        let mut browser = Browser::new();
        browser.media.say(&second());
        browser.media.say(&Speech::Mark(7));
        browser.pass(500);
        let ahead = AHEAD_MS / FRAME_MS;
        assert_eq!(browser.sent as u64, 500 / FRAME_MS + ahead);
        assert_eq!(browser.events, []);
        browser.pass(520);
        assert_eq!(browser.sent, 50);
        assert_eq!(browser.events, [LegEvent::Played(7)]);
        browser.pass(1_000);
        assert_eq!(browser.sent, 50, "silence is not sent");
    }

    #[test]
    fn an_interruption_counts_what_was_played() {
        let mut browser = Browser::new();
        for total_played_ms in [500, 1_000] {
            browser.media.say(&second());
            browser.media.say(&Speech::Mark(1));
            browser.pass(500);
            browser.media.flush(browser.now_ms, &mut browser.events);
            let flushed = LegEvent::Flushed { total_played_ms };
            assert_eq!(browser.events, [LegEvent::Played(1), flushed]);
            browser.events.clear();
            browser.pass(300);
        }
    }

    #[test]
    fn a_pause_is_heard_at_once_and_nothing_is_lost() {
        let mut browser = Browser::new();
        browser.media.say(&second());
        browser.media.say(&Speech::Mark(7));
        browser.pass(500);
        let before = browser.sent;
        browser.media.pause(browser.now_ms, &mut browser.events);
        browser.pass(1_000);
        assert_eq!((browser.sent, &browser.events[..]), (before, &[][..]));
        browser.media.go_on();
        browser.pass(520);
        // The browser has dropped a fifth of a second.
        assert_eq!(browser.sent, 50 + 10);
        assert_eq!(browser.events, [LegEvent::Played(7)]);
        browser.events.clear();
        browser.media.flush(browser.now_ms, &mut browser.events);
        let total_played_ms = 1_000;
        assert_eq!(browser.events, [LegEvent::Flushed { total_played_ms }]);
    }

    #[test]
    fn the_browser_knows_best_what_it_has_played_and_cannot_claim_more() {
        for (claimed, total_played_ms) in [(200, 300), (9_000, 500)] {
            let mut browser = Browser::new();
            browser.media.say(&second());
            browser.pass(400);
            browser.media.played(claimed, browser.now_ms);
            browser.pass(100);
            browser.media.flush(browser.now_ms, &mut browser.events);
            assert_eq!(browser.events, [LegEvent::Flushed { total_played_ms }]);
        }
    }

    #[test]
    fn pieces_of_any_length_become_frames() {
        let mut media = WebMedia::new(0);
        let mut events = Vec::new();
        for _ in 0..10 {
            media.hear(&[0; 642], 0, &mut events).expect("even");
        }
        assert_eq!(events.len(), 10);
        assert_eq!(media.hear(&[0; 3], 0, &mut events), Err(WebFault::Odd));
    }

    /// A browser that sends nothing for a while, and then goes on.
    #[test]
    fn audio_that_was_never_sent_is_no_credit_for_a_flood() {
        let mut media = WebMedia::new(0);
        let mut events = Vec::new();
        for at_ms in (0..600_000).step_by(14_000) {
            assert_eq!(media.hear(&[0; 640], at_ms, &mut events), Ok(()));
            assert_eq!(media.hear(&[0; 640], at_ms + 2_000, &mut events), Ok(()));
        }
        let flood = (0..30).find_map(|_| media.hear(&[0; 32_000], 600_000, &mut events).err());
        assert_eq!(flood, Some(WebFault::TooFast));
        let mut media = WebMedia::new(0);
        for at_ms in (0..14_000).step_by(1_000) {
            assert_eq!(media.hear(&[], at_ms, &mut events), Ok(()));
        }
        let silent = Err(WebFault::Silent);
        assert_eq!(media.tick(15_000, &mut events, |_| {}), silent);
    }

    /// A slow connection brings nine tenths of the audio, late, and then all that the browser kept.
    #[test]
    fn a_slow_connection_may_bring_what_is_late() {
        let mut media = WebMedia::new(0);
        let mut events = Vec::new();
        let mut sent_ms = 0;
        for at_ms in (0..150_000).step_by(20) {
            if sent_ms * 10 < at_ms * 9 {
                assert_eq!(media.hear(&[0; 640], at_ms, &mut events), Ok(()));
                sent_ms += 20;
            }
        }
        for _ in (sent_ms..150_000).step_by(1_000) {
            assert_eq!(media.hear(&[0; 32_000], 150_000, &mut events), Ok(()));
        }
    }

    #[test]
    fn floods_and_silence_end_the_connection() {
        let mut media = WebMedia::new(0);
        let mut events = Vec::new();
        let second = [0; 32_000];
        for _ in 0..5 {
            media.hear(&second, 0, &mut events).expect("it may be late");
        }
        assert_eq!(media.hear(&second, 0, &mut events), Err(WebFault::TooFast));
        assert_eq!(media.tick(14_999, &mut events, |_| {}), Ok(()));
        assert_eq!(
            media.tick(15_000, &mut events, |_| {}),
            Err(WebFault::Silent)
        );
    }
}
