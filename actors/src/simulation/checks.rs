//! The invariants: money and states after every write, the rest at the end.

use std::collections::{BTreeMap, BTreeSet};

use dikala_entities::{
    CallId, CallStatus, EventKind, HangupReason, Minutes, TransactionType, call,
};

use super::{
    base::{LONGEST_MINUTES, RULES},
    phones::SimulatedPhone,
    setting::InjectedFault,
    world::SimulatedWorld,
};
use crate::runtime::simulated::{
    clock::BEGAN,
    tables::{DeliveryState, Tables},
};

type Checked = Result<(), String>;

/// Maximum delay until a node learns of an event, including clock errors.
const LATE_MS: i64 = 30_000;

fn must(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// Checks after a request to the store was carried out; `before` is the number of earlier changes.
pub(super) fn after(what: &str, world: &SimulatedWorld<'_>, before: usize) -> Checked {
    let tables = &world.tables;
    if let Some(breach) = tables.breaches.first() {
        return Err(breach.clone());
    }
    match what {
        "write" | "take" => {
            money(tables)?;
            nobody_is_opened_twice(tables)?;
            (before..tables.changes.len()).try_for_each(|change| is_legal(tables, change))
        }
        "end" => nobody_acts_who_was_ended(world),
        _ => Ok(()),
    }
}

/// Checks the accounts with the ledger's own invariants, and the holds against the calls.
fn money(tables: &Tables) -> Checked {
    for account in tables.accounts.values() {
        let tenant = account.tenant_id;
        let holds = || {
            let holds = tables.holds.values();
            holds.filter(|hold| hold.tenant_id == tenant && hold.settled_at.is_none())
        };
        let of_tenant = || tables.transactions.iter().filter(|t| t.tenant_id == tenant);
        let usage = of_tenant().filter(|t| t.kind == TransactionType::Usage);
        let usage: i64 = usage.map(|t| -t.minutes).sum();
        let running: i64 = holds().map(|hold| hold.used).sum();
        let rules = [
            (
                "nothing is negative",
                account.available >= 0 && account.held >= 0 && account.used >= 0,
            ),
            (
                "what came in is there",
                account.available + account.held + account.used
                    == account.purchased + account.adjusted,
            ),
            (
                "held is what calls hold",
                account.held == holds().map(|hold| hold.held).sum::<i64>(),
            ),
            (
                "as many hold as are counted",
                usize::try_from(account.open_holds) == Ok(holds().count()),
            ),
            (
                "used is usage and what runs",
                account.used == usage + running,
            ),
            (
                "transactions are numbered",
                of_tenant().zip(1..).all(|(t, number)| t.seq == number),
            ),
        ];
        for (rule, holds) in rules {
            must(holds, || {
                format!("the books: it does not hold that {rule}: {account:?}")
            })?;
        }
    }
    Ok(())
}

/// A bridge's name for a call belongs to one call only.
fn nobody_is_opened_twice(tables: &Tables) -> Checked {
    let mut names = BTreeSet::new();
    tables.calls.values().try_for_each(|call| {
        must(names.insert((call.bridge_id, &call.bridge_call_id)), || {
            format!("{} is two calls", call.bridge_call_id)
        })
    })
}

/// Checks the transition between two states, and that the writer owned the call.
fn is_legal(tables: &Tables, change: usize) -> Checked {
    use CallStatus::{Answered, Dropped, Ended, Failed, Ringing};
    let earlier = &tables.changes[..change];
    let change = &tables.changes[change];
    let is_legal = match (change.from, change.to) {
        (None, Ringing | Failed) => true,
        (Some(Ringing), Ringing | Answered | Dropped | Failed) => true,
        (Some(Answered), Answered | Ended | Dropped) => true,
        (Some(from), to) => from.is_final() && from == to,
        _ => false,
    };
    must(is_legal, || format!("an illegal transition: {change:?}"))?;
    let last = earlier.iter().rev().find(|other| other.call == change.call);
    let owned = last.is_none_or(|last| {
        last.epoch < change.epoch || (last.epoch == change.epoch && last.owner == change.owner)
    });
    must(owned, || {
        format!("two owners write: {last:?} and {change:?}")
    })
}

/// A node whose row is gone must have stopped before.
fn nobody_acts_who_was_ended(world: &SimulatedWorld<'_>) -> Checked {
    for process in world
        .machines
        .iter()
        .filter_map(|machine| machine.process.as_ref())
    {
        let id = process.member.id();
        let is_there = id.is_empty() || world.tables.nodes.contains_key(&*id);
        must(is_there || !process.member.acts(), || {
            format!("{id} was ended and acts still")
        })?;
    }
    Ok(())
}

/// True once every call is over and every event delivered.
pub(super) fn all_is_done(tables: &Tables) -> bool {
    let over = tables.calls.values().all(|row| row.status.is_final());
    let settled = tables.holds.values().all(|hold| hold.settled_at.is_some());
    let mut deliveries = tables.deliveries.values();
    let subscribed: usize = tables
        .events
        .iter()
        .map(|event| event.subscribers.len())
        .sum();
    let is_written = tables.deliveries.len() == subscribed;
    over && settled && is_written && deliveries.all(|row| row.state != DeliveryState::Pending)
}

/// The invariants at the end.
pub(super) fn in_the_end(world: &SimulatedWorld<'_>) -> Checked {
    let tables = &world.tables;
    for row in tables.calls.values() {
        must(row.status.is_final(), || {
            format!("{} is never over: {row:?}", row.id)
        })?;
        billed(tables, row)?;
        told(tables, row.id, row.answered_at.is_some())?;
    }
    let account = &tables.accounts[&world.base.tenant];
    must(account.held == 0 && account.open_holds == 0, || {
        format!("something is held in the end: {account:?}")
    })?;
    bought_once(world)?;
    delivered(world)?;
    in_order(world)?;
    world
        .phones
        .iter()
        .try_for_each(|phone| true_to(world, phone))
}

/// Each call is billed once, for its talk time.
fn billed(tables: &Tables, row: &call::Model) -> Checked {
    let billed: Vec<i64> = tables
        .transactions
        .iter()
        .filter(|t| t.call_id == Some(row.id))
        .map(|t| -t.minutes)
        .collect();
    let talk = row.talk_time_seconds.unwrap_or(0);
    let expected = row.answered_at.map(|_| Minutes::for_talk(talk).get());
    must(billed == Vec::from_iter(expected), || {
        format!(
            "{} talked for {talk} s and is billed {billed:?}: {row:?}",
            row.id
        )
    })
}

/// One event for each transition, and no others.
fn told(tables: &Tables, call: CallId, answered: bool) -> Checked {
    let mut kinds: BTreeMap<EventKind, usize> = BTreeMap::new();
    for event in tables
        .events
        .iter()
        .filter(|event| event.call == Some(call))
    {
        *kinds.entry(event.kind).or_default() += 1;
    }
    let mut expected = BTreeMap::from([(EventKind::CallStarted, 1), (EventKind::CallEnded, 1)]);
    if answered {
        expected.insert(EventKind::CallAnswered, 1);
    }
    must(kinds == expected, || {
        format!("the events of {call} are {kinds:?}")
    })
}

fn bought_once(world: &SimulatedWorld<'_>) -> Checked {
    for (reference, is_booked) in &world.top_ups {
        let booked = world.tables.transactions.iter();
        let booked = booked
            .filter(|t| t.reference.as_ref() == Some(reference))
            .count();
        let fits = if *is_booked == 1 {
            booked == 1
        } else {
            booked <= 1
        };
        must(fits, || format!("{reference} is booked {booked} times"))?;
    }
    Ok(())
}

/// Every event reached every webhook, and more than once only if a node may have lost track of its attempts.
fn delivered(world: &SimulatedWorld<'_>) -> Checked {
    let tables = &world.tables;
    let positions = tables.events.iter().map(|event| event.position);
    let count = i64::try_from(tables.events.len()).unwrap_or(0);
    let positions: BTreeSet<i64> = positions.collect();
    must(positions.iter().copied().eq(1..=count), || {
        "positions have gaps".to_owned()
    })?;
    for event in &tables.events {
        let of_it = tables
            .deliveries
            .iter()
            .filter(|(_, row)| row.event == event.id);
        let of_it: Vec<_> = of_it.collect();
        let webhooks: BTreeSet<_> = of_it.iter().map(|(_, row)| row.webhook).collect();
        let is_whole = of_it.len() == webhooks.len() && webhooks.len() == world.base.webhooks.len();
        must(is_whole, || format!("{:?} has deliveries {of_it:?}", event))?;
        for (id, row) in of_it {
            must(row.state == DeliveryState::Succeeded, || {
                format!("{id} was not delivered: {row:?}")
            })?;
            let mut received = world.receiver.received.iter();
            let came = received.any(|received| received.delivery == *id && received.is_taken);
            must(came, || {
                format!("{id} is said to be delivered and never came")
            })?;
        }
    }
    let mut attempts = BTreeSet::new();
    for received in &world.receiver.received {
        let is_new = attempts.insert((received.delivery, received.number));
        must(is_new || !world.setting.spares_nodes(), || {
            format!("{} was sent twice while all nodes lived", received.delivery)
        })?;
    }
    Ok(())
}

/// If nodes never lose track, first attempts came in the order of their call's events.
fn in_order(world: &SimulatedWorld<'_>) -> Checked {
    let tables = &world.tables;
    let place = |event| {
        tables
            .events
            .iter()
            .find(|known| known.id == event)
            .map(|known| known.position)
    };
    let calls = tables.calls.values();
    for row in calls.filter(|_| world.setting.spares_nodes()) {
        for webhook in &world.base.webhooks {
            let firsts = world.receiver.received.iter().filter(|received| {
                received.call == Some(row.id)
                    && received.webhook == *webhook
                    && received.number == 1
            });
            let order: Vec<_> = firsts.map(|received| place(received.event)).collect();
            must(order.is_sorted(), || {
                format!("events of {} came as {order:?}", row.id)
            })?;
        }
    }
    Ok(())
}

/// Statements to a bridge or tenant were true, and the billed time is the talk time.
fn true_to(world: &SimulatedWorld<'_>, phone: &SimulatedPhone) -> Checked {
    let Some(call) = phone.call else {
        return Ok(());
    };
    let tables = &world.tables;
    let name = &phone.name;
    let row = tables.calls.get(&call);
    let row = row.ok_or_else(|| format!("{name} was taken, and is not there"))?;
    must(
        row.answered_at.is_some() || !phone.answer_is_written,
        || format!("{name}: the answer was acknowledged and is lost: {row:?}"),
    )?;
    joined(phone, row)?;
    kept_promise(world, phone, row)?;
    let (Some(answered), Some(ended)) = (phone.answered_at, phone.ended_at) else {
        return Ok(());
    };
    let Some(talk) = row.talk_time_seconds.filter(|_| row.answered_at.is_some()) else {
        return Ok(());
    };
    let is_exact = world.setting.faults.is_empty();
    let wrong_ms = match is_exact {
        true => 0,
        false if world.setting.has(InjectedFault::Clocks) => 6_000,
        false => 1_000,
    };
    let talked_ms = ended - answered;
    let is_lost = row.hangup_reason == Some(HangupReason::BridgeLost);
    let until = row.ended_at.map_or(ended, |at| at.since(BEGAN));
    let slack = wrong_ms
        + if is_lost {
            noticed_within(world, ended, until)
        } else {
            0
        };
    // If the service ended a call without a report, it did so when that was due.
    let is_reported = phone.is_in_order && phone.end_is_written;
    let is_reported = is_reported && row.hangup_reason == Some(HangupReason::Normal);
    must(
        !(is_reported || is_lost) || talk * 1_000 <= talked_ms + slack,
        || format!("{name} talked for {talked_ms} ms, and it is said to be {talk} s: {row:?}"),
    )?;
    let was_cut = talk % 60 == 0 || talk >= LONGEST_MINUTES * 60;
    must(
        !is_reported || was_cut || talk * 1_000 + 999 + wrong_ms >= talked_ms,
        || format!("{name} talked for {talked_ms} ms, and only {talk} s are known: {row:?}"),
    )?;
    must(!(is_exact && is_lost), || {
        format!("{name} was lost though nothing went wrong: {row:?}")
    })?;
    let at = |ms: i64| Some(BEGAN.plus_ms(ms));
    must(!is_exact || row.answered_at == at(answered), || {
        format!("{name} was answered at {answered}: {row:?}")
    })
}

/// A joining that was acknowledged is kept, and the agent's longest duration cuts the call no more.
fn joined(phone: &SimulatedPhone, row: &call::Model) -> Checked {
    let Some(written_at) = phone.join_written_at else {
        return Ok(());
    };
    must(row.joined_at.is_some(), || {
        format!(
            "{}: the joining was acknowledged and is lost: {row:?}",
            phone.name
        )
    })?;
    let is_cut = row.hangup_reason == Some(HangupReason::MaxDuration);
    let is_late = row.ended_at > Some(BEGAN.plus_ms(written_at));
    must(!(is_cut && is_late), || {
        format!("{} was cut although it was joined: {row:?}", phone.name)
    })
}

/// The maximum time until a node notices a state and can act on it. It includes faults of nodes meanwhile, the time
/// for others to notice those, and lost lists of bridges.
fn noticed_within(world: &SimulatedWorld<'_>, from: i64, until: i64) -> i64 {
    let troubles = world.troubles.iter();
    let troubles = troubles.filter(|(began, over)| *over + LATE_MS >= from && *began <= until);
    let away: i64 = troubles
        .map(|(began, over)| (over.min(&until) - began.max(&from)).max(0) + 2 * LATE_MS)
        .sum();
    let is_patchy = [
        InjectedFault::LostAnswers,
        InjectedFault::SlowStore,
        InjectedFault::Messages,
    ];
    let is_patchy = is_patchy.iter().any(|fault| world.setting.has(*fault));
    LATE_MS + away + if is_patchy { LATE_MS } else { 0 }
}

/// A call that a tenant asked to end does end, after its bridge's grace time and the time for a node to act.
fn kept_promise(world: &SimulatedWorld<'_>, phone: &SimulatedPhone, row: &call::Model) -> Checked {
    let Some(wished) = phone.wished_at else {
        return Ok(());
    };
    let changes = world.tables.changes.iter();
    let over = changes.filter(|change| change.call == row.id && change.to.is_final());
    let over = over.map(|change| change.at).min().unwrap_or(i64::MAX);
    let most = RULES.hangup_grace_ms + noticed_within(world, wished, over);
    must(over - wished <= most, || {
        format!(
            "{} was promised to end, and did so {} ms later",
            phone.name,
            over - wished
        )
    })
}
