//! Notices tell other nodes which tables to read, so that none polls all the time. A notice carries no data, and
//! losing one costs time only: the tables are the truth. They are polled every second, and more often while notices
//! cannot be received.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// A subject that another node may have written and this one should read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The places of bridges, and commands for them.
    Bridges,
    /// Events that may be followed here.
    Events,
    /// Deliveries, and webhooks that this node may deliver to.
    Deliveries,
}

pub(super) const TOPICS: [Topic; 3] = [Topic::Bridges, Topic::Events, Topic::Deliveries];

impl Topic {
    fn bit(self) -> u8 {
        1 << (self as u8)
    }

    fn letter(self) -> char {
        match self {
            Self::Bridges => 'b',
            Self::Events => 'e',
            Self::Deliveries => 'd',
        }
    }
}

/// This node's notices to and from others. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// One per topic: notified by another node's notice.
    told: [Notify; TOPICS.len()],
    /// The topics of which others were not told yet, as bits.
    untold: AtomicU8,
    wanted: Notify,
    listens: AtomicBool,
}

impl Notices {
    /// Sends a notice soon. Call it after the commit.
    pub fn tell(&self, topic: Topic) {
        self.0.untold.fetch_or(topic.bit(), Relaxed);
        self.0.wanted.notify_one();
    }

    /// Completes after another node's notice about a topic, or when one may have been missed. One caller per topic.
    pub async fn told(&self, topic: Topic) {
        self.0.told[topic as usize].notified().await;
    }

    /// True while notices are received: polling every second is enough then.
    pub fn listens(&self) -> bool {
        self.0.listens.load(Relaxed)
    }

    fn wake(&self, topics: impl IntoIterator<Item = Topic>) {
        for topic in topics {
            self.0.told[topic as usize].notify_one();
        }
    }

    pub(super) fn listening(&self, listens: bool) {
        if self.0.listens.swap(listens, Relaxed) == listens {
            return;
        }
        // Callers wait for one of two intervals; the wake-up makes them choose again.
        self.wake(TOPICS);
    }

    /// Takes the topics to send, as a notice's text. None if there are none.
    pub(super) fn take_untold(&self, me: &str) -> Option<String> {
        let topics = self.0.untold.swap(0, Relaxed);
        let named = TOPICS.into_iter().filter(|topic| topics & topic.bit() != 0);
        (topics != 0).then(|| format!("{me} {}", named.map(Topic::letter).collect::<String>()))
    }

    /// Puts back the topics of a notice that could not be sent.
    pub(super) fn put_back(&self, notice: &str) {
        for topic in named(notice).1 {
            self.tell(topic);
        }
    }

    pub(super) fn has_untold(&self) -> bool {
        self.0.untold.load(Relaxed) != 0
    }

    /// Completes when there may be topics to send.
    pub(super) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Handles another node's notice, or this one's own.
    pub(super) fn heard(&self, notice: &str, me: &str) {
        let (node, topics) = named(notice);
        if node != me {
            self.wake(topics);
        }
    }
}

/// The sender of a notice, and its topics.
fn named(notice: &str) -> (&str, impl Iterator<Item = Topic>) {
    let (node, letters) = notice.split_once(' ').unwrap_or_default();
    let is_named = |topic: &Topic| letters.contains(topic.letter());
    (node, TOPICS.into_iter().filter(is_named))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_others_say_is_read_whatever_it_is() {
        let notices = Notices::default();
        let told = |topic| notices.told(topic).now_or_never().is_some();
        for (heard, topics) in [
            ("node_1 e", &[Topic::Events][..]),
            ("node_1 bd", &[Topic::Bridges, Topic::Deliveries]),
            // A later version may have more topics.
            ("node_1 ez later", &[Topic::Events]),
            ("me bed", &[]),
            ("node_1 ", &[]),
            ("", &[]),
            ("bed", &[]),
        ] {
            notices.heard(heard, "me");
            for topic in TOPICS {
                assert_eq!(told(topic), topics.contains(&topic), "{heard}: {topic:?}");
            }
        }
        assert_eq!(notices.take_untold("node_1"), None);
        TOPICS.into_iter().for_each(|topic| notices.tell(topic));
        let notice = notices.take_untold("node_1").expect("all");
        assert_eq!(notice, "node_1 bed");
        assert!(!notices.has_untold());
        notices.put_back(&notice);
        assert_eq!(notices.take_untold("node_1"), Some(notice));
    }
}
