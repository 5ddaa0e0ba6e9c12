//! Property tests: invariants that hold in any order of items, and planners with planted bugs that break them.

use std::collections::{BTreeMap, BTreeSet};

use dikala_entities::credit_hold;
use proptest::prelude::*;

use super::*;

/// The invariants after every item.
fn check(book: &LedgerRows, tenant: TenantId) -> Result<(), String> {
    let account = &book.accounts[&tenant];
    let open = || book.holds.values().filter(|hold| hold.settled_at.is_none());
    let posted: i64 = book.transactions.iter().map(|t| t.minutes).sum();
    let usage: i64 = book
        .transactions
        .iter()
        .filter(|t| t.kind == TransactionType::Usage)
        .map(|t| -t.minutes)
        .sum();
    let running: i64 = open().map(|hold| hold.used).sum();
    let held: i64 = open().map(|hold| hold.held).sum();
    let rules = [
        (
            "nothing is negative",
            account.available >= 0 && account.held >= 0 && account.used >= 0,
        ),
        (
            "what came in is there",
            account.available + account.held + account.used == account.purchased + account.adjusted,
        ),
        (
            "held is the sum of the holds",
            account.held == held && account.open_holds == open().count() as i64,
        ),
        (
            "used is usage and running calls",
            account.used == usage + running,
        ),
        (
            "the running sum is right",
            account.posted == account.purchased + posted - purchased(book),
        ),
        (
            "numbers have no gap",
            book.transactions
                .iter()
                .enumerate()
                .all(|(i, t)| t.seq == i as i64 + 1),
        ),
    ];
    rules
        .into_iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {account:?}")))
}

fn purchased(book: &LedgerRows) -> i64 {
    book.transactions
        .iter()
        .filter(|t| t.kind == TransactionType::Purchase)
        .map(|t| t.minutes)
        .sum()
}

#[derive(Clone, Debug)]
enum Step {
    Admit(usize, Option<i64>),
    Extend {
        call: usize,
        ahead: i64,
        started: i64,
        want: i64,
    },
    Settle(usize, i64),
    Adjust(i64, Option<u8>),
}

impl Step {
    /// `request` is the number of the call's last request.
    fn item(&self, tenant: TenantId, calls: &[CallId], request: i64) -> Item {
        match self {
            Self::Admit(call, most) => admit(tenant, calls[*call], *most),
            Self::Extend {
                call,
                ahead,
                started,
                want,
            } => extend(tenant, calls[*call], request + ahead, *started, *want),
            Self::Settle(call, minutes) => settle(tenant, calls[*call], *minutes),
            Self::Adjust(minutes, key) => {
                // The same reference is repeated with other minutes too.
                adjust(tenant, *minutes, key.map(|key| key.to_string()))
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    let step = prop_oneof![
        3 => (0..4_usize, prop::option::of(1..4_i64)).prop_map(|(call, most)| Step::Admit(call, most)),
        5 => (0..4_usize, -1..3_i64, 0..6_i64, 0..4_i64)
            .prop_map(|(call, ahead, started, want)| Step::Extend { call, ahead, started, want }),
        3 => (0..4_usize, 0..6_i64).prop_map(|(call, minutes)| Step::Settle(call, minutes)),
        2 => (-5..8_i64, prop::option::of(0..3_u8)).prop_map(|(minutes, key)| Step::Adjust(minutes, key)),
    ];
    prop::collection::vec((step, any::<bool>()), 1..60)
}

fn balance(book: &LedgerRows, tenant: TenantId) -> i64 {
    let account = &book.accounts[&tenant];
    account.available + account.held
}

type Rows = (
    BTreeMap<TenantId, credit_account::Model>,
    BTreeMap<CallId, credit_hold::Model>,
    usize,
);

fn book_of(book: &LedgerRows) -> Rows {
    (
        book.accounts.clone(),
        book.holds.clone(),
        book.transactions.len(),
    )
}

fn free(outcome: &PostingOutcome) -> bool {
    *outcome == Ok(ItemOutcome::Settlement(Settlement { minutes: 0 }))
}

/// The state before an item, to compare with.
struct Before {
    rows: Rows,
    balance: i64,
    lows: usize,
}

impl Before {
    fn of(book: &LedgerRows, tenant: TenantId) -> Self {
        Self {
            rows: book_of(book),
            balance: balance(book, tenant),
            lows: book.lows.len(),
        }
    }

    fn compare(
        &self,
        book: &LedgerRows,
        tenant: TenantId,
        outcome: &PostingOutcome,
    ) -> Result<(), &str> {
        let fell = self.balance >= LOW_THRESHOLD && balance(book, tenant) < LOW_THRESHOLD;
        if book.lows.len() - self.lows != usize::from(fell) {
            return Err("low credit is not announced once per crossing");
        }
        if outcome.is_err() && book_of(book) != self.rows {
            return Err("a refused item changed something");
        }
        Ok(())
    }
}

type Planner = fn(&mut LedgerRows, &[Item], Millis) -> Vec<PostingOutcome>;

/// Plays the steps, repeating some of them. An error names the rule that broke.
fn play(minutes: i64, steps: &[(Step, bool)], planner: Planner) -> Result<(), String> {
    let Play {
        tenant,
        calls,
        mut book,
    } = Play::new(minutes);
    let mut refused = BTreeSet::new();
    for (step, twice) in steps {
        let request = match step {
            Step::Extend { call, .. } => {
                book.holds.get(&calls[*call]).map_or(0, |hold| hold.request)
            }
            _ => 0,
        };
        let item = step.item(tenant, &calls, request);
        let before = Before::of(&book, tenant);
        let first = planner(&mut book, std::slice::from_ref(&item), NOW).remove(0);
        check(&book, tenant)?;
        before
            .compare(&book, tenant, &first)
            .map_err(|rule| format!("{rule}: {step:?}"))?;
        if let Item::Admit(admit) = &item
            && let Ok(ItemOutcome::Admission(Admission::Refused(_))) = first
        {
            refused.insert(admit.call);
        } else if item.call().is_some_and(|call| refused.contains(&call))
            && first.is_ok()
            && !free(&first)
        {
            return Err(format!("a refused call was served: {step:?}"));
        }
        if *twice {
            let before = book_of(&book);
            let again = planner(&mut book, &[item], NOW).remove(0);
            if before != book_of(&book) || (first.is_ok() && again != first) {
                return Err(format!(
                    "a repeat is not harmless: {step:?} {first:?} {again:?}"
                ));
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_batch_books_what_its_items_book_one_by_one(minutes in 0..12_i64, steps in steps()) {
        let Play { tenant, calls, book } = Play::new(minutes);
        let items: Vec<Item> = steps
            .iter()
            .flat_map(|(step, twice)| {
                let item = step.item(tenant, &calls, 1);
                std::iter::repeat_n(item, 1 + usize::from(*twice))
            })
            .collect();
        let (mut at_once, mut singly) = (book.clone(), book);
        let together = plan(&mut at_once, &items, NOW);
        let apart: Vec<PostingOutcome> = items
            .iter()
            .flat_map(|item| plan(&mut singly, std::slice::from_ref(item), NOW))
            .collect();
        prop_assert_eq!(together, apart);
        prop_assert_eq!(book_of(&at_once), book_of(&singly));
    }

    #[test]
    fn any_order_of_items_keeps_the_books(minutes in 0..12_i64, steps in steps()) {
        let played = play(minutes, &steps, plan);
        prop_assert!(played.is_ok(), "{played:?}");
    }
}

/// Planted bugs, taken from other systems.
#[test]
fn wrong_planners_are_caught() {
    fn charges_twice(book: &mut LedgerRows, items: &[Item], now: Millis) -> Vec<PostingOutcome> {
        if let Item::Settle(settle) = &items[0]
            && let Some(hold) = book.holds.get_mut(&settle.call)
            && hold.refusal.is_none()
        {
            hold.settled_at = None;
        }
        plan(book, items, now)
    }
    fn settles_for_free(book: &mut LedgerRows, items: &[Item], now: Millis) -> Vec<PostingOutcome> {
        let outcomes = plan(book, items, now);
        if matches!(items[0], Item::Settle(_)) {
            book.transactions.clear();
        }
        outcomes
    }
    fn forgets_to_give_back(
        book: &mut LedgerRows,
        items: &[Item],
        now: Millis,
    ) -> Vec<PostingOutcome> {
        let outcomes = plan(book, items, now);
        if let Item::Settle(settle) = &items[0]
            && let Some(account) = book.accounts.get_mut(&settle.tenant)
        {
            account.available -= 1;
        }
        outcomes
    }
    fn books_a_reference_again(
        book: &mut LedgerRows,
        items: &[Item],
        now: Millis,
    ) -> Vec<PostingOutcome> {
        book.booked.clear();
        plan(book, items, now)
    }
    fn forgets_refusals(book: &mut LedgerRows, items: &[Item], now: Millis) -> Vec<PostingOutcome> {
        if let Item::Admit(admit) = &items[0]
            && book
                .holds
                .get(&admit.call)
                .is_some_and(|hold| hold.refusal.is_some())
        {
            book.holds.remove(&admit.call);
        }
        plan(book, items, now)
    }
    fn warns_all_the_time(
        book: &mut LedgerRows,
        items: &[Item],
        now: Millis,
    ) -> Vec<PostingOutcome> {
        for account in book.accounts.values_mut() {
            account.low_armed = true;
        }
        plan(book, items, now)
    }
    let steps: Vec<(Step, bool)> = [
        Step::Admit(0, None),
        Step::Extend {
            call: 0,
            ahead: 1,
            started: 1,
            want: 1,
        },
        Step::Settle(0, 1),
        Step::Admit(1, None),
        Step::Adjust(-7, Some(1)),
        Step::Settle(1, 1),
        Step::Admit(2, None),
        Step::Adjust(1, None),
        Step::Admit(2, None),
    ]
    .into_iter()
    .map(|step| (step, true))
    .collect();
    assert_eq!(play(9, &steps, plan), Ok(()));
    let wrong: [(&str, Planner); 6] = [
        ("charges twice", charges_twice),
        ("settles for free", settles_for_free),
        ("forgets to give back", forgets_to_give_back),
        ("books a reference again", books_a_reference_again),
        ("forgets refusals", forgets_refusals),
        ("warns all the time", warns_all_the_time),
    ];
    for (name, planner) in wrong {
        assert!(play(9, &steps, planner).is_err(), "{name}");
    }
}
