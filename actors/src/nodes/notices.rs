//! Notices tell other nodes which tables and which webhooks to read, so that none polls all the time. Losing one costs
//! time only: the tables are the truth. They are polled every second, and more often while notices cannot be received.
//!
//! A notice is text: the node, a letter for each topic, and the ids of changed webhooks, with spaces between them.

use std::{
    collections::BTreeSet,
    mem::take,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
    },
};

use dikala_entities::WebhookId;
use tokio::sync::Notify;

/// Changed webhooks in one notice, which PostgreSQL limits to 8,000 bytes. Of more, the others are noticed by polling.
const WEBHOOKS_MAX: usize = 100;

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
    untold_webhooks: WebhookSet,
    /// Webhooks that other nodes changed.
    changed_webhooks: WebhookSet,
    webhooks_changed: Notify,
    wanted: Notify,
    listens: AtomicBool,
}

/// At most [`WEBHOOKS_MAX`] webhooks.
#[derive(Debug, Default)]
struct WebhookSet(Mutex<BTreeSet<WebhookId>>);

impl WebhookSet {
    fn add(&self, webhooks: impl IntoIterator<Item = WebhookId>) {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = WEBHOOKS_MAX.saturating_sub(set.len());
        set.extend(webhooks.into_iter().take(room));
    }

    fn take(&self) -> BTreeSet<WebhookId> {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_empty(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

impl Notices {
    /// Sends a notice soon. Call it after the commit.
    pub fn tell(&self, topic: Topic) {
        self.0.untold.fetch_or(topic.bit(), Relaxed);
        self.0.wanted.notify_one();
    }

    /// Sends a notice that a webhook was changed, soon. Call it after the commit.
    pub fn tell_changed(&self, webhook: WebhookId) {
        self.0.untold_webhooks.add([webhook]);
        self.0.wanted.notify_one();
    }

    /// Completes with the webhooks that other nodes changed. One caller.
    pub async fn changed_webhooks(&self) -> BTreeSet<WebhookId> {
        self.0.webhooks_changed.notified().await;
        self.0.changed_webhooks.take()
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
        let webhooks = self.0.untold_webhooks.take();
        let named = TOPICS.into_iter().filter(|topic| topics & topic.bit() != 0);
        let mut notice = format!("{me} {}", named.map(Topic::letter).collect::<String>());
        for webhook in &webhooks {
            notice.push_str(&format!(" {webhook}"));
        }
        (topics != 0 || !webhooks.is_empty()).then_some(notice)
    }

    /// Puts back the topics of a notice that could not be sent.
    pub(super) fn put_back(&self, notice: &str) {
        let notice = ParsedNotice::of(notice);
        self.0.untold_webhooks.add(notice.webhooks());
        notice.topics().for_each(|topic| self.tell(topic));
    }

    pub(super) fn has_untold(&self) -> bool {
        self.0.untold.load(Relaxed) != 0 || !self.0.untold_webhooks.is_empty()
    }

    /// Completes when there may be topics to send.
    pub(super) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Handles another node's notice, or this one's own.
    pub(crate) fn heard(&self, notice: &str, me: &str) {
        let notice = ParsedNotice::of(notice);
        if notice.node == me {
            return;
        }
        self.0.changed_webhooks.add(notice.webhooks());
        if !self.0.changed_webhooks.is_empty() {
            self.0.webhooks_changed.notify_one();
        }
        self.wake(notice.topics());
    }
}

/// A notice's text. What cannot be read is ignored: a later version may say more.
struct ParsedNotice<'a> {
    node: &'a str,
    letters: &'a str,
    ids: &'a str,
}

impl<'a> ParsedNotice<'a> {
    fn of(notice: &'a str) -> Self {
        let (node, said) = notice.split_once(' ').unwrap_or_default();
        let (letters, ids) = said.split_once(' ').unwrap_or((said, ""));
        Self { node, letters, ids }
    }

    fn topics(&self) -> impl Iterator<Item = Topic> + use<'a> {
        let letters = self.letters;
        TOPICS
            .into_iter()
            .filter(move |topic| letters.contains(topic.letter()))
    }

    fn webhooks(&self) -> impl Iterator<Item = WebhookId> + use<'a> {
        self.ids.split(' ').filter_map(|id| id.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;
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

    #[test]
    fn changed_webhooks_are_named_and_bounded() {
        let (here, there) = (Notices::default(), Notices::default());
        let webhooks: BTreeSet<WebhookId> = (0..150).map(|_| WebhookId::new(Millis::MIN)).collect();
        webhooks
            .iter()
            .for_each(|webhook| here.tell_changed(*webhook));
        let notice = here.take_untold("here").expect("webhooks");
        assert!(notice.len() < 8_000, "{}", notice.len());
        assert!(!here.has_untold());
        here.put_back(&notice);
        assert_eq!(here.take_untold("here").as_deref(), Some(&*notice));

        here.heard(&notice, "here");
        assert!(here.changed_webhooks().now_or_never().is_none());
        for _ in 0..2 {
            there.heard(&notice, "there");
        }
        let changed = there.changed_webhooks().now_or_never().expect("webhooks");
        assert!(changed.len() == WEBHOOKS_MAX && changed.is_subset(&webhooks));
        assert!(there.told(Topic::Deliveries).now_or_never().is_none());
        assert!(there.changed_webhooks().now_or_never().is_none());
    }
}
