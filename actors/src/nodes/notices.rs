//! Nodes tell each other where something is to be looked for, so that nobody has to look all the time. A notice carries no data, and
//! losing one costs time only: the tables are the truth, and are looked at every second anyway; more often while others cannot be
//! heard.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_entities::{Store, store};
use sea_orm::DbErr;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::Membership;

/// Nodes of one database share it with no other program's.
const CHANNEL: &str = "dikala";
/// How often it is looked whether there are other nodes.
const ALONE_FOR: Duration = Duration::from_secs(1);
/// Between two notices of this node: what comes meanwhile goes with the next.
const APART: Duration = Duration::from_millis(10);
/// A connection on which this node said nothing for so long proves that it is there.
const PROVEN_FOR: Duration = Duration::from_secs(1);
/// Before another connection is tried.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

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

const TOPICS: [Topic; 3] = [Topic::Bridges, Topic::Events, Topic::Deliveries];

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

    fn listening(&self, listens: bool) {
        if self.0.listens.swap(listens, Relaxed) == listens {
            return;
        }
        // Who waits as long as is right for the one looks again as often as is right for the other.
        self.wake(TOPICS);
    }

    fn take_untold(&self) -> u8 {
        self.0.untold.swap(0, Relaxed)
    }

    /// Another node's notice, or this one's own.
    fn heard(&self, notice: &str, me: &str) {
        let Some((node, topics)) = notice.split_once(' ') else {
            return;
        };
        if node != me {
            let named = |topic: &Topic| topics.contains(topic.letter());
            self.wake(TOPICS.into_iter().filter(named));
        }
    }
}

/// What one node says: who it is, and a letter for each topic.
fn notice(me: &str, topics: u8) -> String {
    let named = TOPICS.into_iter().filter(|topic| topics & topic.bit() != 0);
    format!("{me} {}", named.map(Topic::letter).collect::<String>())
}

/// Listens, and tells, for as long as it is polled, while there are other nodes.
pub async fn exchange(member: Membership, store: Store) {
    let notices = member.notices();
    let mut is_deaf = false;
    loop {
        if !member.has_others() {
            notices.take_untold();
            sleep(ALONE_FOR).await;
            continue;
        }
        let ended = attend(&member, &store, notices).await;
        is_deaf &= !notices.listens();
        notices.listening(false);
        let Err(error) = ended else {
            continue;
        };
        // One that cannot be reached for long is told of once.
        if is_deaf {
            tracing::debug!(%error, "other nodes are still not heard");
        } else {
            tracing::warn!(%error, "other nodes are not heard; the tables are looked at more often");
        }
        is_deaf = true;
        sleep(AGAIN_AFTER).await;
    }
}

/// Listens until there are no other nodes, or the connection is of no more use.
async fn attend(member: &Membership, store: &Store, notices: &Notices) -> Result<(), DbErr> {
    let Some(mut connection) = store.listen(CHANNEL).await? else {
        sleep(ALONE_FOR).await;
        return Ok(());
    };
    // Whatever was said before is found by looking.
    notices.listening(true);
    let mut said_at = Instant::now();
    while member.has_others() {
        let has_untold = notices.0.untold.load(Relaxed) != 0;
        let pause = if has_untold { APART } else { PROVEN_FOR };
        tokio::select! {
            notice = connection.next() => notices.heard(&notice?, &member.id()),
            () = notices.0.wanted.notified() => {}
            () = sleep_until(said_at + pause) => {
                say(&mut connection, notices, &member.id()).await?;
                said_at = Instant::now();
            }
        }
    }
    Ok(())
}

async fn say(connection: &mut store::Notices, notices: &Notices, me: &str) -> Result<(), DbErr> {
    let topics = notices.take_untold();
    if topics == 0 {
        return connection.prove().await;
    }
    let told = connection.tell(&notice(me, topics)).await;
    if told.is_err() {
        // Told again on the next connection.
        notices.0.untold.fetch_or(topics, Relaxed);
    }
    told
}

#[cfg(test)]
mod tests {
    use dikala_testkit::eventually;
    use futures_util::FutureExt;
    use sea_orm::{ConnectionTrait, Statement};

    use super::*;

    /// What listens, as the server has it.
    const LISTENERS: &str = "FROM pg_stat_activity WHERE datname = current_database() \
                             AND application_name = 'dikala notices'";

    /// One that hears of others, until it is dropped.
    struct One {
        member: Membership,
        exchange: actix_rt::task::JoinHandle<()>,
    }

    impl Drop for One {
        fn drop(&mut self) {
            self.exchange.abort();
        }
    }

    impl One {
        async fn listening(id: &str, store: &Store) -> Self {
            let member = Membership::outside(id);
            member.found(2);
            let exchange = actix_rt::spawn(exchange(member.clone(), store.clone()));
            let one = Self { member, exchange };
            one.listens().await;
            one
        }

        async fn listens(&self) {
            eventually("to listen", async || self.notices().listens().then_some(())).await;
            // Who has only begun looks once for what was said before.
            for topic in TOPICS {
                self.notices().told(topic).await;
            }
        }

        fn notices(&self) -> &Notices {
            self.member.notices()
        }

        fn has_been_told(&self, topic: Topic) -> bool {
            self.notices().told(topic).now_or_never().is_some()
        }
    }

    async fn listeners(store: &Store) -> usize {
        let sql = format!("SELECT pid {LISTENERS}");
        let statement = Statement::from_string(store.backend(), sql);
        let rows = store.reader().query_all_raw(statement).await;
        rows.expect("is read").len()
    }

    #[actix::test]
    async fn a_node_tells_others_and_not_itself_and_nothing_else() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let a = One::listening("a", &store).await;
        let b = One::listening("b", &store).await;
        for topic in TOPICS {
            b.notices().tell(topic);
            eventually(&format!("{topic:?}"), async || {
                a.has_been_told(topic).then_some(())
            })
            .await;
            for other in TOPICS {
                assert!(!a.has_been_told(other), "{other:?} with {topic:?}");
            }
        }
        // What it is told now came after what it said itself.
        a.notices().tell(Topic::Events);
        b.notices().told(Topic::Events).await;
        b.notices().tell(Topic::Bridges);
        a.notices().told(Topic::Bridges).await;
        assert!(!a.has_been_told(Topic::Events), "its own");
    }

    /// Nobody relies on it then: it is looked for as if there were nothing to be heard. What could not be said is said later.
    #[actix::test]
    async fn who_is_cut_off_knows_and_comes_back() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let a = One::listening("a", &store).await;
        let b = One::listening("b", &store).await;
        let end = format!("SELECT pg_terminate_backend(pid) {LISTENERS}");
        for round in 0..3 {
            let ended = store.writer().execute_unprepared(&end).await;
            assert_eq!(ended.expect("is sent").rows_affected(), 2, "{round}");
            // Each looks when it knows, or when it hears again.
            for one in [&a, &b] {
                one.notices().told(Topic::Deliveries).await;
            }
            eventually("to listen again", async || {
                let listen = [&a, &b].map(|one| one.notices().listens());
                (listeners(&store).await == 2 && listen == [true; 2]).then_some(())
            })
            .await;
            a.has_been_told(Topic::Events);
            b.notices().tell(Topic::Events);
            a.notices().told(Topic::Events).await;
        }
    }

    #[actix::test]
    async fn alone_it_keeps_no_connection() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let a = One::listening("a", &store).await;
        a.member.found(1);
        eventually("no connection", async || {
            (listeners(&store).await == 0).then_some(())
        })
        .await;
    }

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
        let all = TOPICS.iter().fold(0, |bits, topic| bits | topic.bit());
        assert_eq!(notice("node_1", all), "node_1 bed");
    }
}
