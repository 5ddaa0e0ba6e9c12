//! A requested summary. From the request on, nothing is said to the caller.

use std::time::Duration;

/// Time limit of a summary.
const SUMMARY: Duration = Duration::from_secs(8);
/// The service accepts a summary four times as long.
const SUMMARY_MOST: usize = 4_000;

#[derive(Debug)]
pub(in crate::voice) struct SummaryRequest {
    text: String,
    /// `None` once it was reported.
    until: Option<Duration>,
    has_begun: bool,
}

impl SummaryRequest {
    pub(in crate::voice) fn new(now: Duration) -> Self {
        Self {
            text: String::new(),
            until: Some(now + SUMMARY),
            has_begun: false,
        }
    }

    /// When it ends with what has come so far.
    pub(in crate::voice) fn due(&self) -> Option<Duration> {
        self.until
    }

    /// The model has begun; true for the first time.
    pub(in crate::voice) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    pub(in crate::voice) fn push(&mut self, piece: &str) {
        if self.text.len() < SUMMARY_MOST {
            self.text.push_str(piece);
        }
    }

    /// Forgets what was said so far: it was no part of the summary.
    pub(in crate::voice) fn clear(&mut self) {
        self.text.clear();
    }

    pub(in crate::voice) fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// Ends the summary. Returns its text once, if there is any.
    pub(in crate::voice) fn finish(&mut self) -> Option<String> {
        let text = self.text.trim().to_owned();
        self.until.take().filter(|_| !text.is_empty()).map(|_| text)
    }
}
