//! Which deliveries a queue accepts, and how far its cursor is.

use dikala_entities::{EventId, EventKind, WebhookId};

use super::*;
use crate::{
    events::outbox::Dispatch,
    webhooks::scheduler::effects::{CursorReading, Refilled},
};

const NOW: Millis = Millis::from_i64(1_768_447_800_000);

fn item(sequence: i64) -> QueuedDelivery {
    QueuedDelivery {
        dispatch: Dispatch {
            delivery: DeliveryId::new(NOW),
            webhook: WebhookId::new(NOW),
            tenant: TenantId::new(NOW),
            event: EventId::new(NOW),
            kind: EventKind::CallStarted,
            call: None,
            body: "{}".into(),
            attempts: 0,
            is_test: false,
            trace: None,
            place: Some(LogPlace {
                sequence,
                position: 10 * sequence,
            }),
        },
        read_at: NOW,
        created: NOW,
    }
}

fn at(sequence: i64) -> LogPlace {
    LogPlace {
        sequence,
        position: 10 * sequence,
    }
}

fn reading(stored: i64, end: i64) -> CursorReading {
    CursorReading {
        stored: at(stored),
        end: at(end),
        ..CursorReading::default()
    }
}

/// A queue whose cursor is at the end of the log.
fn queue(sequence: i64) -> EndpointQueue<()> {
    let mut queue = EndpointQueue::new(TenantId::new(NOW), NOW);
    queue.read_cursor(Some(reading(sequence, sequence)));
    queue.aim(Destination::Ready(Rc::new(())));
    queue
}

fn refilled(written: i64) -> Refilled {
    Refilled {
        items: Vec::new(),
        written: at(written),
        is_log_end: true,
        is_complete: true,
    }
}

#[test]
fn what_does_not_follow_the_last_one_is_left_to_the_table() {
    let mut queue = queue(4);
    assert!(queue.offer(item(5), true, NOW));
    assert!(!queue.offer(item(7), true, NOW));
    // So is every later one, until the table was read.
    assert!(!queue.offer(item(8), true, NOW));
    assert!(queue.is_behind());
    assert_eq!(queue.cursor(), Some(at(5).before()));
    queue.refilled(refilled(8), queue.mark(true));
    assert_eq!(queue.cursor(), Some(at(8)));
    assert!(queue.offer(item(9), true, NOW));
    assert!(queue.offer(item(9), true, NOW), "what is known is no gap");
    assert_eq!(queue.waiting(), 2);
}

#[test]
fn what_came_before_the_cursor_is_kept_if_the_cursor_is_right_before_it() {
    for (stored, is_kept) in [(4, true), (3, false), (5, false)] {
        let mut queue = EndpointQueue::<()>::new(TenantId::new(NOW), NOW);
        assert!(queue.offer(item(5), true, NOW));
        assert!(queue.offer(item(6), true, NOW));
        queue.read_cursor(Some(reading(stored, 6)));
        assert_eq!(queue.waiting(), if is_kept { 2 } else { 0 }, "{stored}");
        assert_eq!(queue.is_behind(), !is_kept, "{stored}");
    }
}

#[test]
fn pending_rows_come_before_what_is_fresh() {
    let mut queue = EndpointQueue::<()>::new(TenantId::new(NOW), NOW);
    assert!(queue.offer(item(5), true, NOW));
    let reading = CursorReading {
        has_pending: true,
        ..reading(4, 5)
    };
    queue.read_cursor(Some(reading));
    assert_eq!(queue.waiting(), 0);
    assert!(queue.is_behind());
}

#[test]
fn events_of_other_nodes_are_noticed_at_once_and_lost_ones_by_the_second_read() {
    let mut queue = queue(4);
    queue.read_cursor(Some(reading(4, 5)));
    assert!(!queue.is_behind(), "it may be on its way");
    queue.read_cursor(Some(reading(4, 5)));
    assert!(queue.is_behind());
    let mut queue = self::queue(4);
    queue.read_cursor(Some(CursorReading {
        is_announced_elsewhere: true,
        ..reading(4, 5)
    }));
    assert!(queue.is_behind());
}

#[test]
fn what_a_crash_of_the_database_took_back_is_not_waited_for() {
    let mut queue = queue(4);
    assert!(!queue.offer(item(6), true, NOW));
    let mark = queue.mark(true);
    queue.refilled(refilled(4), mark);
    assert!(!queue.is_behind());
    // An event that was seen during the read may be new.
    assert!(!queue.offer(item(7), true, NOW));
    queue.refilled(refilled(4), mark);
    assert!(queue.is_behind());
}

#[test]
fn a_delivery_that_waits_for_long_gets_a_row() {
    let mut queue = queue(0);
    assert!(queue.offer(item(1), true, NOW));
    assert!(!queue.must_write(NOW.plus_ms(log::UNWRITTEN_MS - 1)));
    assert!(queue.must_write(NOW.plus_ms(log::UNWRITTEN_MS)));
    queue.refilled(refilled(1), queue.mark(true));
    assert!(!queue.must_write(NOW.plus_ms(log::UNWRITTEN_MS)));
    assert_eq!((queue.cursor(), queue.waiting()), (Some(at(1)), 1));
    // It is read from its row once it is forgotten.
    queue.forget();
    assert!(queue.is_behind());
    assert_eq!(queue.cursor(), Some(at(1)));
}

#[test]
fn the_cursor_stays_before_what_was_forgotten() {
    let mut queue = queue(0);
    for sequence in 1..=3 {
        assert!(queue.offer(item(sequence), true, NOW));
    }
    let limits = QueueLimits {
        concurrency: 1,
        has_others: false,
    };
    let (_, first) = queue.take(limits, NOW).expect("begins");
    queue.recorded(first.dispatch.delivery);
    let cursor = |queue: &EndpointQueue<()>| queue.cursor().map(|place| place.sequence);
    assert_eq!(cursor(&queue), Some(1));
    queue.forget();
    assert_eq!(cursor(&queue), Some(1));
    assert!(queue.is_behind());
}

/// Otherwise a busy endpoint's deliveries would all be read from the table, because some always come meanwhile.
#[test]
fn what_comes_while_the_table_is_read_follows_it() {
    let mut queue = queue(0);
    assert!(!queue.offer(item(2), true, NOW));
    queue.refilling = true;
    for sequence in 3..=5 {
        assert!(queue.offer(item(sequence), true, NOW));
    }
    assert_eq!(queue.waiting(), 0);
    let mark = queue.mark(true);
    queue.refilled(refilled(3), mark);
    assert_eq!((queue.waiting(), queue.is_behind()), (2, false));
    // If the read fails, they are left to the table.
    let mut queue = self::queue(0);
    assert!(!queue.offer(item(2), true, NOW));
    queue.refilling = true;
    assert!(queue.offer(item(3), true, NOW));
    queue.not_refilled();
    assert_eq!((queue.waiting(), queue.is_behind()), (0, true));
}

/// An event of a call waits for the one before it, while a later one of another call is under way.
#[test]
fn the_cursor_stays_before_what_was_forgotten_while_a_later_one_is_under_way() {
    let mut queue = queue(0);
    let calls = [CallId::new(NOW), CallId::new(NOW)];
    for (sequence, call) in [(1, 0), (2, 0), (3, 1)] {
        let mut item = item(sequence);
        item.dispatch.call = Some(calls[call]);
        assert!(queue.offer(item, true, NOW));
    }
    let limits = QueueLimits {
        concurrency: 2,
        has_others: false,
    };
    let (_, first) = queue.take(limits, NOW).expect("begins");
    let (_, third) = queue.take(limits, NOW).expect("begins");
    assert_eq!(third.dispatch.place, Some(at(3)));
    queue.forget();
    queue.recorded(first.dispatch.delivery);
    assert_eq!(queue.cursor().map(|place| place.sequence), Some(1));
}

#[test]
fn rows_are_not_written_again_and_again() {
    let mut queue = queue(0);
    assert!(!queue.offer(item(2), true, NOW));
    assert!(queue.must_write(NOW));
    queue.asked_for_rows(NOW);
    let mark = queue.mark(false);
    queue.refilled(refilled(2), mark);
    assert!(queue.is_behind(), "the rows are not read");
    assert!(!queue.offer(item(3), true, NOW));
    assert!(!queue.must_write(NOW));
    assert!(queue.must_write(NOW.plus_ms(200)));
}

/// An endpoint that refuses one kind of event alone.
#[test]
fn a_probe_is_of_another_kind_than_was_refused() {
    const LIMITS: QueueLimits = QueueLimits {
        concurrency: 8,
        has_others: false,
    };
    let mut queue = queue(0);
    let calls: Vec<CallId> = (0..10).map(|_| CallId::new(NOW)).collect();
    let of_calls = |kind: EventKind| calls.iter().map(move |call| (kind, *call));
    let all = of_calls(EventKind::CallStarted).chain(of_calls(EventKind::CallEnded));
    for (sequence, (kind, call)) in (1..).zip(all) {
        let mut item = item(sequence);
        item.dispatch.kind = kind;
        item.dispatch.call = Some(call);
        assert!(queue.offer(item, true, NOW));
    }
    let refused = AttemptVerdict::Retry {
        at: NOW.plus_ms(3_600_000),
    };
    let mut attempts = Vec::new();
    for at in (0..20_000).step_by(100) {
        let now = NOW.plus_ms(at);
        while let Some((_, item)) = queue.take(LIMITS, now) {
            let verdict = match item.dispatch.kind {
                EventKind::CallStarted => refused,
                _ => AttemptVerdict::Delivered,
            };
            attempts.push((item.dispatch.kind, item.dispatch.call.unwrap()));
            queue.attempted(&item, verdict, now);
        }
    }
    let place = |kind, call| attempts.iter().position(|it| *it == (kind, call));
    for call in calls {
        let started = place(EventKind::CallStarted, call).expect("is tried");
        let ended = place(EventKind::CallEnded, call).expect("is tried");
        assert!(started < ended, "the order of first attempts");
    }
    assert_eq!(attempts.len(), 20);
}
