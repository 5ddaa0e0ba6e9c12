//! Nodes tell each other where something is to be looked for, so that nobody has to look all the time. A notice carries no data, and
//! losing one costs time only: the tables are the truth, and are looked at every second anyway; more often while others cannot be
//! heard.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// What another node may have written that this one is to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Where bridges are, and commands for them.
    Bridges,
    /// Events that somebody may follow here.
    Events,
    /// Webhooks that this node may deliver to, and deliveries.
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

/// What this node tells others and hears of them. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Of each topic: another node told of it.
    told: [Notify; TOPICS.len()],
    /// The topics that others are to be told of.
    untold: AtomicU8,
    wanted: Notify,
    listens: AtomicBool,
}

impl Notices {
    /// Tells other nodes, soon, that there is something to look for. Call it after the commit.
    pub fn tell(&self, topic: Topic) {
        self.0.untold.fetch_or(topic.bit(), Relaxed);
        self.0.wanted.notify_one();
    }

    /// Completes when another node told of something, or may have; for one who waits for a topic.
    pub async fn told(&self, topic: Topic) {
        self.0.told[topic as usize].notified().await;
    }

    /// Whether others are heard now: then who waits for them need not look himself more than every second.
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
        // Who waits as long as is right for the one looks again as often as is right for the other.
        self.wake(TOPICS);
    }

    /// What others are to be told of now, as they are told; none where there is nothing.
    pub(super) fn take_untold(&self, me: &str) -> Option<String> {
        let topics = self.0.untold.swap(0, Relaxed);
        let named = TOPICS.into_iter().filter(|topic| topics & topic.bit() != 0);
        (topics != 0).then(|| format!("{me} {}", named.map(Topic::letter).collect::<String>()))
    }

    /// That could not be told.
    pub(super) fn put_back(&self, notice: &str) {
        for topic in named(notice).1 {
            self.tell(topic);
        }
    }

    pub(super) fn has_untold(&self) -> bool {
        self.0.untold.load(Relaxed) != 0
    }

    /// Completes when others may have to be told of something.
    pub(super) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Another node's notice, or this one's own.
    pub(super) fn heard(&self, notice: &str, me: &str) {
        let (node, topics) = named(notice);
        if node != me {
            self.wake(topics);
        }
    }
}

/// Who says something, and of which topics.
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
            // A newer version may know more.
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
