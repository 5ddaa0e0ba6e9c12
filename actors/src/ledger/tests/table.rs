//! The planner, decision by decision.

use dikala_entities::{HangupReason, MINUTES_MAX};

use super::*;
use crate::ledger::check;

#[test]
fn a_call_holds_uses_and_gives_back() {
    let mut play = Play::new(5);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert_eq!(
        play.book(admit(tenant, call, None)),
        Ok(ItemOutcome::Admission(Admission::Granted))
    );
    assert_eq!(play.minutes(), (4, 1, 0));
    let grant = play.book(extend(tenant, call, 1, 1, 1));
    assert_eq!(
        grant,
        Ok(ItemOutcome::Extension(Extension {
            last: false,
            total: 2
        }))
    );
    assert_eq!(play.minutes(), (3, 1, 1));
    assert_eq!(
        play.book(settle(tenant, call, 1)),
        Ok(ItemOutcome::Settlement(Settlement { minutes: 1 }))
    );
    assert_eq!(play.minutes(), (4, 0, 1));
    // Repeated with another figure: the first settlement stays.
    assert_eq!(
        play.book(settle(tenant, call, 3)),
        Ok(ItemOutcome::Settlement(Settlement { minutes: 1 }))
    );
    assert_eq!(play.book.transactions.len(), 1);
    assert_eq!(
        play.book(extend(tenant, call, 2, 1, 1)),
        Err(LedgerError::Settled)
    );
}

#[test]
fn a_refusal_is_remembered_after_a_top_up() {
    let mut play = Play::new(0);
    let (tenant, call) = (play.tenant, play.calls[0]);
    let refused = Ok(ItemOutcome::Admission(Admission::Refused(
        HangupReason::InsufficientCredits,
    )));
    assert_eq!(play.book(admit(tenant, call, None)), refused);
    assert!(play.book(adjust(tenant, 10, None)).is_ok());
    assert_eq!(play.book(admit(tenant, call, None)), refused);
    assert_eq!(play.minutes(), (10, 0, 0));
}

#[test]
fn requests_are_answered_once_and_in_order() {
    let mut play = Play::new(3);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert!(play.book(admit(tenant, call, None)).is_ok());
    let partial = Ok(ItemOutcome::Extension(Extension {
        last: true,
        total: 3,
    }));
    assert_eq!(play.book(extend(tenant, call, 1, 1, 9)), partial);
    assert_eq!(play.book(extend(tenant, call, 1, 1, 9)), partial);
    assert_eq!(
        play.book(extend(tenant, call, 0, 1, 1)),
        Err(LedgerError::Stale)
    );
    assert_eq!(
        play.book(extend(tenant, call, 3, 1, 1)),
        Err(LedgerError::OutOfOrder)
    );
    // A top-up saves the call, under the next request number.
    assert!(play.book(adjust(tenant, 1, None)).is_ok());
    assert_eq!(
        play.book(extend(tenant, call, 2, 3, 1)),
        Ok(ItemOutcome::Extension(Extension {
            last: false,
            total: 4
        }))
    );
}

#[test]
fn another_owner_writes_nothing() {
    let mut play = Play::new(5);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert!(play.book(admit(tenant, call, None)).is_ok());
    let before = play.minutes();
    let other = Item::Settle(Settle {
        call,
        tenant,
        owner: Arc::from("other"),
        epoch: 2,
        minutes: 1,
    });
    assert_eq!(play.book(other), Err(LedgerError::NotOwner));
    assert_eq!(play.minutes(), before);
}

#[test]
fn calls_at_the_same_time_are_counted() {
    let mut play = Play::new(9);
    let (tenant, calls) = (play.tenant, play.calls.clone());
    assert!(play.book(admit(tenant, calls[0], Some(1))).is_ok());
    let refused = Ok(ItemOutcome::Admission(Admission::Refused(
        HangupReason::ConcurrencyLimit,
    )));
    assert_eq!(play.book(admit(tenant, calls[1], Some(1))), refused);
    assert!(play.book(settle(tenant, calls[0], 0)).is_ok());
    assert_eq!(
        play.book(admit(tenant, calls[2], Some(1))),
        Ok(ItemOutcome::Admission(Admission::Granted))
    );
}

#[test]
fn low_credit_is_announced_once_per_crossing() {
    let mut play = Play::new(4);
    let (tenant, calls) = (play.tenant, play.calls.clone());
    for (call, lows) in [(calls[0], 0), (calls[1], 1), (calls[2], 1)] {
        assert!(play.book(admit(tenant, call, None)).is_ok());
        assert!(play.book(settle(tenant, call, 1)).is_ok());
        assert_eq!(play.book.lows.len(), lows);
    }
    assert!(play.book(adjust(tenant, 2, None)).is_ok());
    assert!(play.book(adjust(tenant, -1, None)).is_ok());
    assert_eq!(play.book.lows.len(), 2, "armed again at the threshold");
    assert!(play.book(adjust(tenant, -2, None)).is_ok());
    assert_eq!(
        (play.book.lows.len(), play.minutes().0),
        (2, 0),
        "exactly zero is below as well"
    );
    assert_eq!(
        play.book(adjust(tenant, -1, None)),
        Err(LedgerError::TooFew { available: 0 })
    );
}

#[test]
fn a_reference_is_booked_once() {
    let mut play = Play::new(0);
    let tenant = play.tenant;
    let first = play.book(adjust(tenant, 5, Some("inv-1".into())));
    assert_eq!(play.book(adjust(tenant, 5, Some("inv-1".into()))), first);
    assert_eq!(
        play.book(adjust(tenant, 6, Some("inv-1".into()))),
        Err(LedgerError::ReferenceReused)
    );
    assert_eq!(play.minutes(), (5, 0, 0));
}

#[test]
fn a_closed_call_is_not_admitted_again() {
    let mut play = Play::new(5);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert!(play.book(admit(tenant, call, None)).is_ok());
    assert_eq!(
        play.book(admit(tenant, call, Some(1))),
        Ok(ItemOutcome::Admission(Admission::Granted)),
        "a repeat while the hold is open"
    );
    let by_another = Item::Admit(Admit {
        call,
        tenant,
        owner: owner(),
        epoch: 2,
        max_concurrent: None,
    });
    assert_eq!(play.book(by_another), Err(LedgerError::NotOwner));
    assert!(play.book(settle(tenant, call, 0)).is_ok());
    assert_eq!(
        play.book(admit(tenant, call, None)),
        Err(LedgerError::Settled)
    );
    assert_eq!(play.minutes(), (5, 0, 0));
}

#[test]
fn a_call_of_another_tenant_is_not_touched() {
    let mut play = Play::new(5);
    let (tenant, call) = (play.tenant, play.calls[0]);
    let stranger = TenantId::new(NOW);
    play.book.accounts.insert(stranger, account(stranger, 5));
    assert!(play.book(admit(tenant, call, None)).is_ok());
    for item in [
        admit(stranger, call, None),
        extend(stranger, call, 1, 0, 1),
        settle(stranger, call, 1),
    ] {
        assert_eq!(play.book(item), Err(LedgerError::NotOwner));
    }
    assert_eq!(play.book.accounts[&stranger], account(stranger, 5));
}

/// MagnusBilling checks credit only at the start of a call.
#[test]
fn no_minute_begins_that_was_not_granted_first() {
    let mut play = Play::new(2);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert!(play.book(admit(tenant, call, None)).is_ok());
    for (request, last, total) in [(1, false, 2), (2, true, 2), (3, true, 2)] {
        assert_eq!(
            play.book(extend(tenant, call, request, 99, 1)),
            Ok(ItemOutcome::Extension(Extension { last, total }))
        );
        assert!(play.minutes().0 >= 0);
    }
}

/// In cnxcc and Kazoo one empty balance ends all calls of a customer.
#[test]
fn the_last_minute_of_one_call_leaves_the_others_their_own() {
    let mut play = Play::new(3);
    let (tenant, calls) = (play.tenant, play.calls.clone());
    assert!(play.book(admit(tenant, calls[0], None)).is_ok());
    assert!(play.book(admit(tenant, calls[1], None)).is_ok());
    let grant = |last, total| Ok(ItemOutcome::Extension(Extension { last, total }));
    assert_eq!(
        play.book(extend(tenant, calls[0], 1, 1, 1)),
        grant(false, 2)
    );
    assert_eq!(play.book(extend(tenant, calls[1], 1, 1, 1)), grant(true, 1));
    // The minute that the first call releases saves the second.
    assert!(play.book(settle(tenant, calls[0], 1)).is_ok());
    assert_eq!(
        play.book(extend(tenant, calls[1], 2, 1, 1)),
        grant(false, 2)
    );
    assert_eq!(play.minutes(), (0, 1, 2));
}

/// Other systems charge an interval again after a restart.
#[test]
fn minutes_that_began_are_counted_once() {
    let mut play = Play::new(9);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert!(play.book(admit(tenant, call, None)).is_ok());
    for (request, started) in [(1, 1), (2, 1), (3, 0)] {
        assert!(
            play.book(extend(tenant, call, request, started, 1)).is_ok(),
            "{request}"
        );
        assert_eq!(play.minutes().2, 1, "one minute began");
    }
}

/// CGRateS debits below zero at the end; others refuse that debit, so the usage is free.
#[test]
fn the_end_bills_what_was_granted_however_empty_the_account_is() {
    let mut play = Play::new(2);
    let (tenant, calls) = (play.tenant, play.calls.clone());
    assert!(play.book(admit(tenant, calls[0], None)).is_ok());
    assert!(play.book(adjust(tenant, -1, None)).is_ok());
    assert_eq!(play.minutes(), (0, 1, 0));
    assert_eq!(
        play.book(settle(tenant, calls[0], 7)),
        Ok(ItemOutcome::Settlement(Settlement { minutes: 1 }))
    );
    assert_eq!(play.minutes(), (0, 0, 1));
    let usage = play.book.transactions.last().expect("is there");
    assert_eq!((usage.minutes, usage.balance_after), (-1, 0));
}

/// OpenMeter misses a threshold when the balance falls to zero at once.
#[test]
fn a_fall_to_exactly_zero_is_announced() {
    for threshold in [1, 3, 30] {
        let mut play = Play::new(threshold);
        let (tenant, call) = (play.tenant, play.calls[0]);
        let account = play.book.accounts.get_mut(&tenant).expect("is there");
        (account.low_threshold, account.low_armed) = (threshold, true);
        assert!(play.book(admit(tenant, call, None)).is_ok());
        assert!(
            play.book(extend(tenant, call, 1, 0, threshold - 1)).is_ok(),
            "held, not used: no fall yet"
        );
        assert!(play.book.lows.is_empty());
        assert!(play.book(settle(tenant, call, threshold)).is_ok());
        let balance = 0;
        assert_eq!(
            play.book.lows,
            [plan::LowBalance {
                tenant,
                balance,
                threshold
            }]
        );
    }
}

#[test]
fn a_purchase_below_the_threshold_is_no_fall() {
    let mut play = Play::new(0);
    let tenant = play.tenant;
    for _ in 0..3 {
        assert!(play.book(adjust(tenant, 1, None)).is_ok());
    }
    assert!(play.book.lows.is_empty());
}

#[test]
fn no_figure_overflows() {
    let mut play = Play::new(5);
    let (tenant, call) = (play.tenant, play.calls[0]);
    assert!(play.book(admit(tenant, call, Some(i64::MAX))).is_ok());
    for request in [i64::MIN, i64::MAX] {
        assert!(
            play.book(extend(tenant, call, request, i64::MIN, i64::MAX))
                .is_err()
        );
    }
    for (request, figure) in [(1, i64::MIN), (2, i64::MAX)] {
        assert!(
            play.book(extend(tenant, call, request, figure, figure))
                .is_ok()
        );
    }
    assert_eq!(play.minutes(), (0, 4, 1));
    assert_eq!(
        play.book(adjust(tenant, MINUTES_MAX, None)),
        Err(LedgerError::TooMany)
    );
    assert!(play.book(settle(tenant, call, i64::MIN)).is_ok());
    assert_eq!(play.minutes(), (5, 0, 0));
}

#[test]
fn an_operators_booking_is_checked() {
    let booking = |minutes, kind, reference: Option<&str>| Credit {
        tenant: TenantId::new(NOW),
        minutes,
        kind,
        reference: reference.map(str::to_owned),
        description: None,
    };
    use TransactionType::{Adjustment, Bonus, Purchase, Refund, Usage};
    let long = "x".repeat(256);
    for wrong in [
        booking(0, Purchase, None),
        booking(MINUTES_MAX + 1, Purchase, None),
        booking(i64::MIN, Adjustment, None),
        booking(-1, Purchase, None),
        booking(-1, Bonus, None),
        booking(-1, Refund, None),
        booking(1, Usage, None),
        booking(1, Purchase, Some("")),
        booking(1, Purchase, Some("a\0b")),
        booking(1, Purchase, Some(long.as_str())),
    ] {
        assert!(check(&wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(check(&booking(-1, Adjustment, Some("inv-1"))), Ok(()));
    let sentence = check(&booking(0, Purchase, None)).expect_err("is refused");
    assert!(sentence.contains(&MINUTES_MAX.to_string()));
}
