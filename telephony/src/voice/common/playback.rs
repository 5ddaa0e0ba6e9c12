//! The items of the agent's speech that the call plays, and how much of them the caller has heard.
//!
//! Speech comes faster than it is played. Each item is remembered with its position in the samples that the call was given since
//! the last interruption, because the call counts what it has played from there.

use std::collections::VecDeque;

use dikala_sip::leg::SPEECH_RATE;

/// Items that are remembered; the oldest are surely heard.
const ITEMS_MOST: usize = 64;
/// Interruptions that wait for the call's answer.
const INTERRUPTIONS_MOST: usize = 8;
const PER_MS: u64 = SPEECH_RATE as u64 / 1_000;

/// The speech of one item, in samples.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SpokenItem {
    id: String,
    content_index: u32,
    begins: u64,
    length: u64,
}

/// An item of which the caller did not hear everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::voice) struct CutItem {
    pub id: String,
    pub content_index: u32,
    /// Less than was received; 0 if nothing was heard.
    pub heard_ms: u64,
    /// The received length.
    pub length_ms: u64,
}

#[derive(Debug, Default)]
pub(in crate::voice) struct Playback {
    /// Samples since the last interruption.
    told: u64,
    items: VecDeque<SpokenItem>,
    /// The items of interruptions of which the call has not said yet how much was heard.
    interrupted: VecDeque<VecDeque<SpokenItem>>,
}

impl Playback {
    /// Samples of an item were given to the call.
    pub(in crate::voice) fn add(&mut self, id: &str, content_index: u32, samples: usize) {
        let length = samples as u64;
        match self.items.back_mut() {
            Some(last) if last.id == id && last.content_index == content_index => {
                last.length += length;
            }
            _ => {
                if self.items.len() == ITEMS_MOST {
                    self.items.pop_front();
                }
                self.items.push_back(SpokenItem {
                    id: id.to_owned(),
                    content_index,
                    begins: self.told,
                    length,
                });
            }
        }
        self.told += length;
    }

    /// Something was said since the last interruption.
    pub(in crate::voice) fn has_spoken(&self) -> bool {
        self.told > 0
    }

    /// The call is told to discard what was not played, and answers each time how much was.
    pub(in crate::voice) fn interrupt(&mut self) {
        if self.interrupted.len() == INTERRUPTIONS_MOST {
            self.interrupted.pop_front();
        }
        let items = std::mem::take(&mut self.items);
        self.interrupted.push_back(items);
        self.told = 0;
    }

    /// The call has played this much until an interruption, the oldest first. Returns the items that were cut off.
    pub(in crate::voice) fn played(&mut self, played_ms: u64) -> Vec<CutItem> {
        let heard = played_ms.saturating_mul(PER_MS);
        let items = self.interrupted.pop_front().into_iter().flatten();
        let cut = items.filter_map(|item| {
            let heard = heard.saturating_sub(item.begins).min(item.length);
            (heard < item.length).then_some(CutItem {
                id: item.id,
                content_index: item.content_index,
                heard_ms: heard / PER_MS,
                length_ms: item.length / PER_MS,
            })
        });
        cut.collect()
    }

    /// A new session knows none of the items. What the call plays goes on.
    pub(in crate::voice) fn forget_items(&mut self) {
        self.items.clear();
        self.interrupted.iter_mut().for_each(VecDeque::clear);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{CutItem, PER_MS, Playback};

    fn samples(milliseconds: u64) -> usize {
        (milliseconds * PER_MS) as usize
    }

    fn cut(id: &str, heard_ms: u64, length_ms: u64) -> CutItem {
        CutItem {
            id: id.to_owned(),
            content_index: 0,
            heard_ms,
            length_ms,
        }
    }

    #[rstest]
    #[case(0, vec![cut("a", 0, 1_000), cut("b", 0, 500)])]
    #[case(1, vec![cut("a", 1, 1_000), cut("b", 0, 500)])]
    #[case(999, vec![cut("a", 999, 1_000), cut("b", 0, 500)])]
    #[case(1_000, vec![cut("b", 0, 500)])]
    #[case(1_200, vec![cut("b", 200, 500)])]
    #[case(1_500, vec![])]
    #[case(u64::MAX, vec![])]
    fn items_have_their_place_in_what_was_played(
        #[case] played_ms: u64,
        #[case] expected: Vec<CutItem>,
    ) {
        let mut playback = Playback::default();
        playback.add("a", 0, samples(400));
        playback.add("a", 0, samples(600));
        playback.add("b", 0, samples(500));
        playback.interrupt();
        playback.add("later", 0, samples(500));
        assert_eq!(playback.played(played_ms), expected);
        assert_eq!(playback.played(played_ms), [], "it is answered once");
    }

    #[test]
    fn every_interruption_counts_anew() {
        let mut playback = Playback::default();
        playback.add("a", 0, samples(1_000));
        playback.interrupt();
        playback.played(300);
        assert!(!playback.has_spoken());
        playback.add("b", 0, samples(1_000));
        playback.interrupt();
        assert_eq!(playback.played(300), [cut("b", 300, 1_000)]);
    }

    #[test]
    fn interruptions_are_answered_in_order() {
        let mut playback = Playback::default();
        for id in ["a", "b"] {
            playback.add(id, 0, samples(1_000));
            playback.interrupt();
        }
        assert_eq!(playback.played(300), [cut("a", 300, 1_000)]);
        assert_eq!(playback.played(0), [cut("b", 0, 1_000)]);
    }

    #[test]
    fn a_new_session_cuts_only_its_own_items() {
        let mut playback = Playback::default();
        playback.add("old", 0, samples(1_000));
        playback.forget_items();
        playback.add("new", 0, samples(500));
        playback.interrupt();
        assert_eq!(playback.played(1_100), [cut("new", 100, 500)]);
    }

    #[test]
    fn it_is_bounded() {
        let mut playback = Playback::default();
        for number in 0..1_000 {
            playback.add(&number.to_string(), 0, samples(10));
        }
        assert!(playback.items.len() <= super::ITEMS_MOST);
        playback.interrupt();
        assert_eq!(
            playback.played(9_985),
            [cut("998", 5, 10), cut("999", 0, 10)]
        );
    }
}
