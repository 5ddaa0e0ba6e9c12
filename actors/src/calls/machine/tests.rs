//! Tables for the machine's decisions, and a property: in any order of events, a call ends once and is billed by the rule.

use proptest::prelude::*;

use dikala_entities::Minutes;

use super::{credit::REFUSALS_MAX, *};

const START: Millis = Millis::from_i64(1_800_000_000_000);
const RULES: CallLimits = CallLimits {
    ring_timeout_ms: 60_000,
    warn_before_ms: 30_000,
    hangup_grace_ms: 10_000,
    lost_after_ms: 30_000,
};

fn after(seconds: i64) -> Millis {
    START.plus_seconds(seconds)
}

fn ringing(max_minutes: i64) -> MachineState {
    MachineState::ringing(START, START, max_minutes, &RULES)
}

fn answered(max_minutes: i64) -> MachineState {
    match ringing(max_minutes).answer(START, START, "m1") {
        Ok(Step::Answered(call)) => *call,
        other => panic!("a ringing call can be answered: {other:?}"),
    }
}

fn ended(step: Step) -> CallEnding {
    match step {
        Step::End(ending) => ending,
        other => panic!("expected an end: {other:?}"),
    }
}

/// The machine lost its power 6 s after the answer, and came back after the longest duration of the call.
#[test]
fn a_call_is_not_billed_for_the_time_in_which_neither_service_nor_bridge_was_there() {
    let call = MachineState {
        seen_at: after(6),
        resumed_at: after(131),
        ..answered(2).credited(after(131))
    };
    let away = Millis::MIN;
    assert_eq!(call.due(after(131), away, &RULES), None);
    let lost_at = after(131 + 35);
    assert_eq!(call.next_deadline(away, &RULES), Some(lost_at));
    assert!(call.waits_for_bridge(away));
    let Some(DueAction::End(end)) = call.due(lost_at, away, &RULES) else {
        panic!("the call is lost");
    };
    assert_eq!(
        (end.status, end.reason, end.at),
        (CallStatus::Dropped, HangupReason::BridgeLost, after(6))
    );
    assert_eq!(call.minutes(&end), 1);

    // The bridge held the call all the time.
    let back = after(132);
    let due = call.granted(1, 2, false, back).due(back, back, &RULES);
    let reason = HangupReason::MaxDuration;
    let due_at = after(120);
    assert!(!call.waits_for_bridge(back));
    assert_eq!(due, Some(DueAction::HangUp { reason, due_at }));

    // It was silent for a few seconds only when the call had to be cut.
    let cut = MachineState {
        seen_at: after(100),
        ..call.granted(1, 2, false, after(131))
    };
    let due = cut.due(after(131), away, &RULES);
    assert_eq!(due, Some(DueAction::HangUp { reason, due_at }));
}

/// A bridge over HTTP sends a heartbeat every 30 s.
#[test]
fn a_warning_comes_in_time_whenever_the_last_sign_was() {
    let call = answered(10).granted(1, 10, false, START);
    let warned_at = after(570);
    for age in 0..30 {
        let sign = after(570 - age);
        assert_eq!(call.next_deadline(sign, &RULES), Some(warned_at), "{age}");
        let due = call.due(warned_at, sign, &RULES);
        let (reason, seconds_left) = (HangupReason::MaxDuration, 30);
        let warning = DueAction::Warn {
            reason,
            seconds_left,
        };
        assert_eq!(due, Some(warning), "{age}");
    }
}

#[test]
fn late_and_repeated_messages_are_harmless() {
    let call = answered(10);
    assert_eq!(call.answer(after(5), after(5), "m2"), Ok(Step::Repeat));
    let end = ended(call.hang_up(
        after(61),
        after(61),
        HangupReason::Normal,
        HangupInitiator::Caller,
    ));
    assert_eq!((end.talk_seconds, call.minutes(&end)), (61, 2));
    let over = call.over(&end);
    let status = CallStatus::Ended;
    assert_eq!(
        over.answer(after(70), after(70), "m3"),
        Err(InvalidTransition { status })
    );
    assert_eq!(over.answer(after(70), after(70), "m1"), Ok(Step::Repeat));
    let (reason, initiator) = (HangupReason::Normal, HangupInitiator::Caller);
    assert_eq!(
        over.hang_up(after(70), after(70), reason, initiator),
        Step::Repeat
    );
    assert_eq!(
        over.fail(after(70), after(70), HangupReason::BridgeError),
        Step::Repeat
    );
    assert_eq!(over.due(after(9_999), START, &RULES), None);
    assert_eq!(over.next_deadline(START, &RULES), None);
}

#[test]
fn a_message_is_placed_between_the_last_change_and_now() {
    let call = answered(10);
    for (at, now, talk) in [(30, 330, 30), (400, 330, 330), (-50, 330, 0)] {
        let step = call.hang_up(
            after(at),
            after(now),
            HangupReason::Normal,
            HangupInitiator::Caller,
        );
        assert_eq!(ended(step).talk_seconds, talk);
    }
}

#[test]
fn a_call_rings_for_a_minute() {
    let call = ringing(10);
    assert_eq!(call.due(after(59), after(59), &RULES), None);
    let Some(DueAction::End(end)) = call.due(after(60), after(60), &RULES) else {
        panic!("the ring timeout is due");
    };
    assert_eq!(
        (end.status, end.reason),
        (CallStatus::Failed, HangupReason::AnswerTimeout)
    );
    assert_eq!((end.duration_seconds, call.minutes(&end)), (60, 0));
}

#[test]
fn an_old_call_gets_its_ring_time_from_when_it_was_reported() {
    let now = after(600);
    let call = MachineState::ringing(START, now, 10, &RULES);
    assert_eq!(call.due(now, now, &RULES), None);
    let late = call.answer(after(5), now, "m1");
    assert!(matches!(late, Ok(Step::Answered(call)) if call.answered_at() == Some(after(5))));
}

#[test]
fn each_minute_is_granted_ahead_of_its_start() {
    let mut call = answered(3);
    let mut asked = Vec::new();
    for second in 0..180 {
        let now = after(second);
        if let Some(DueAction::Extend {
            request,
            started,
            want,
        }) = call.due(now, now, &RULES)
        {
            asked.push((second, request, started, want));
            call = call.granted(request, call.credit.granted + want, false, now);
        }
    }
    assert_eq!(asked, [(30, 1, 1, 1), (90, 2, 2, 1)]);
}

#[test]
fn a_refused_minute_warns_and_cuts_at_the_end_of_the_granted_time() {
    let refused = answered(10).granted(1, 1, true, after(30));
    let due = refused.due(after(30), after(30), &RULES);
    let reason = HangupReason::CreditsExhausted;
    assert_eq!(
        due,
        Some(DueAction::Warn {
            reason,
            seconds_left: 30
        })
    );
    let warned = MachineState {
        warned: Some(reason),
        ..refused
    };
    assert_eq!(warned.due(after(31), after(31), &RULES), None);
    assert!(matches!(
        warned.due(after(35), after(35), &RULES),
        Some(DueAction::Extend { request: 2, .. })
    ));
    // Refused again: asked once more at the cut, then cut.
    let mut last = warned.granted(2, 1, true, after(58));
    assert!(matches!(
        last.due(after(60), after(60), &RULES),
        Some(DueAction::Extend { .. })
    ));
    last = last.granted(3, 1, true, after(60));
    let due = last.due(after(60), after(60), &RULES);
    assert_eq!(
        due,
        Some(DueAction::HangUp {
            reason,
            due_at: after(60)
        })
    );
}

#[test]
fn a_top_up_saves_the_call_and_takes_the_warning_back() {
    let reason = HangupReason::CreditsExhausted;
    let warned = MachineState {
        warned: Some(reason),
        ..answered(10).granted(1, 1, true, after(30))
    };
    let credited = warned.credited(after(40));
    assert!(matches!(
        credited.due(after(40), after(40), &RULES),
        Some(DueAction::Extend { .. })
    ));
    let saved = credited.granted(2, 2, false, after(40));
    assert_eq!(
        (saved.warned, saved.due(after(61), after(61), &RULES)),
        (None, None)
    );
}

#[test]
fn a_hang_up_command_is_carried_out_alone_after_the_grace() {
    let mut call = answered(1);
    assert_eq!(
        call.due(after(30), after(30), &RULES),
        Some(DueAction::Warn {
            reason: HangupReason::MaxDuration,
            seconds_left: 30
        })
    );
    call.warned = Some(HangupReason::MaxDuration);
    let due = call.due(after(61), after(61), &RULES);
    assert_eq!(
        due,
        Some(DueAction::HangUp {
            reason: HangupReason::MaxDuration,
            due_at: after(60)
        })
    );
    call.hangup = Some(PendingHangup {
        id: CommandId::new(START),
        reason: HangupReason::MaxDuration,
        initiator: HangupInitiator::System,
        due_at: after(60),
        issued_at: after(61),
    });
    assert_eq!(call.due(after(70), after(70), &RULES), None);
    let Some(DueAction::End(end)) = call.due(after(71), after(71), &RULES) else {
        panic!("the hang-up is carried out");
    };
    assert_eq!((end.talk_seconds, end.status), (60, CallStatus::Ended));
    // The bridge's own hang-up, a little late, is billed to the cut too.
    let late = ended(call.hang_up(
        after(63),
        after(64),
        HangupReason::MaxDuration,
        HangupInitiator::Caller,
    ));
    assert_eq!(
        (late.initiator, call.minutes(&late)),
        (HangupInitiator::System, 1)
    );
}

/// A cut is due after two minutes; the bridge hangs up six seconds later.
#[test]
fn a_cut_ends_the_call_when_it_was_due_however_late_it_is_obeyed() {
    let told = |reason| PendingHangup {
        id: CommandId::new(START),
        reason,
        initiator: HangupInitiator::System,
        due_at: after(120),
        issued_at: after(121),
    };
    let granted = |call: MachineState| call.granted(1, 3, false, after(90));
    let (cut, credit) = (HangupReason::MaxDuration, HangupReason::CreditsExhausted);
    for (call, reason) in [
        (granted(answered(2)), cut),
        (
            MachineState {
                hangup: Some(told(cut)),
                ..granted(answered(2))
            },
            cut,
        ),
        (
            MachineState {
                hangup: Some(told(credit)),
                ..answered(9).granted(1, 2, true, after(90))
            },
            credit,
        ),
    ] {
        let now = after(126);
        let obeyed = ended(call.hang_up(now, now, reason, HangupInitiator::Bridge));
        let ends = [
            obeyed.clone(),
            ended(call.hang_up(now, now, HangupReason::Normal, HangupInitiator::Caller)),
            ended(call.fail(now, now, HangupReason::MediaLost)),
            ended(call.lost(now, now)),
        ];
        for end in ends {
            let books = (end.at, end.talk_seconds, call.minutes(&end));
            assert_eq!(books, (after(120), 120, 2), "{end:?}");
        }
        assert_eq!((obeyed.status, obeyed.reason), (CallStatus::Ended, reason));
        // A hang-up before the cut counts from its own time.
        let early = call.hang_up(
            after(119),
            now,
            HangupReason::Normal,
            HangupInitiator::Caller,
        );
        assert_eq!(ended(early).talk_seconds, 119);
    }
}

#[test]
fn a_hang_up_that_somebody_asked_for_ends_the_call_when_the_bridge_says() {
    for (reason, initiator) in [
        (HangupReason::Requested, HangupInitiator::Tenant),
        (HangupReason::Operator, HangupInitiator::Operator),
    ] {
        let call = MachineState {
            hangup: Some(PendingHangup {
                id: CommandId::new(START),
                reason,
                initiator,
                due_at: after(55),
                issued_at: after(55),
            }),
            ..answered(10).granted(1, 2, false, after(30))
        };
        let end = ended(call.hang_up(after(61), after(62), reason, HangupInitiator::Bridge));
        assert_eq!((end.talk_seconds, call.minutes(&end)), (61, 2));
        assert_eq!(end.initiator, initiator);
    }
}

#[test]
fn talk_that_is_not_covered_ends_where_the_granted_time_ends() {
    let call = answered(10).granted(1, 2, true, after(90));
    let end = ended(call.hang_up(
        after(126),
        after(126),
        HangupReason::Normal,
        HangupInitiator::Caller,
    ));
    let asked = Some(DueAction::Extend {
        request: 2,
        started: 2,
        want: 1,
    });
    assert_eq!(call.uncovered(&end, 0), asked);
    assert_eq!(call.uncovered(&end, REFUSALS_MAX - 1), asked);
    assert_eq!(call.uncovered(&end, REFUSALS_MAX), None);
    let booked = call.covered(end);
    assert_eq!((booked.talk_seconds, call.minutes(&booked)), (120, 2));
    assert_eq!(call.uncovered(&booked, 0), None);
    assert_eq!(call.covered(booked.clone()), booked);
}

#[test]
fn a_lost_bridge_is_billed_to_its_last_sign() {
    let call = answered(10);
    let sign = after(20);
    assert_eq!(
        call.due(after(49), sign, &RULES),
        call.due(after(30), sign, &RULES)
    );
    let granted = call.granted(1, 2, false, after(30));
    // A heartbeat every 30 s is sometimes a moment late; that does not lose the call.
    assert_eq!(granted.due(after(54), sign, &RULES), None);
    assert_eq!(granted.next_deadline(sign, &RULES), Some(after(55)));
    let Some(DueAction::End(end)) = granted.due(after(55), sign, &RULES) else {
        panic!("the bridge is lost");
    };
    assert_eq!(
        (end.status, end.reason, end.talk_seconds),
        (CallStatus::Dropped, HangupReason::BridgeLost, 20)
    );
}

fn joined(call: &MachineState, seconds: i64) -> MachineState {
    match call.join(after(seconds), after(seconds)) {
        Ok(Step::Joined(call)) => *call,
        other => panic!("an answered call can be joined: {other:?}"),
    }
}

#[test]
fn a_person_joins_an_answered_call_once() {
    let at = after(30);
    let status = CallStatus::Ringing;
    let refused = Err(InvalidTransition { status });
    assert_eq!(ringing(10).join(at, at), refused);
    let wanted = MachineState {
        transfer: Some("+62811111111".parse().expect("a number")),
        transfer_id: Some(CommandId::new(START)),
        ..answered(10)
    };
    let call = joined(&wanted, 30);
    assert_eq!(call.joined_at, Some(at));
    let warned = MachineState {
        warned: Some(HangupReason::CreditsExhausted),
        ..wanted.clone()
    };
    assert_eq!(joined(&warned, 30).warned, None, "both have to hear it");
    assert_eq!(
        (&call.transfer, call.transfer_id),
        (&None, None),
        "it is done"
    );
    assert_eq!(call.join(after(40), after(40)), Ok(Step::Repeat));
    // The end of the call cannot lie before the joining.
    let (reason, initiator) = (HangupReason::Transferred, HangupInitiator::Caller);
    let end = ended(call.hang_up(after(20), after(90), reason, initiator));
    assert_eq!((end.status, end.talk_seconds), (CallStatus::Ended, 30));
    let plain = call.hang_up(after(20), after(90), HangupReason::Normal, initiator);
    assert_eq!(ended(plain), end, "the normal end of a joined call");
    let over = call.over(&end);
    assert_eq!(over.join(after(99), after(99)), Ok(Step::Repeat));
    let never = answered(10).over(&end);
    let status = CallStatus::Ended;
    assert_eq!(never.join(at, after(99)), Err(InvalidTransition { status }));
}

#[test]
fn a_joined_call_outlasts_the_agents_longest_duration_and_not_its_credit() {
    let mut call = joined(&answered(2), 30);
    let mut asked = Vec::new();
    for second in 30..600 {
        let now = after(second);
        match call.due(now, now, &RULES) {
            Some(DueAction::Extend { request, want, .. }) => {
                asked.push(second);
                let last = asked.len() == 6;
                let total = call.credit.granted + if last { 0 } else { want };
                call = call.granted(request, total, last, now);
            }
            Some(DueAction::Warn {
                reason,
                seconds_left,
            }) => {
                assert_eq!((reason, seconds_left), (HangupReason::CreditsExhausted, 29));
                call.warned = Some(reason);
            }
            Some(DueAction::HangUp { reason, due_at }) => {
                assert_eq!(
                    (reason, due_at),
                    (HangupReason::CreditsExhausted, after(360))
                );
                break;
            }
            Some(other) => panic!("{other:?} at {second}"),
            None => {}
        }
    }
    assert_eq!(asked[..6], [30, 90, 150, 210, 270, 330]);
}

#[test]
fn a_cut_that_was_due_before_the_joining_stays() {
    let call = answered(1);
    let now = after(70);
    let Some(DueAction::HangUp { reason, due_at }) =
        call.granted(1, 2, false, after(30)).due(now, now, &RULES)
    else {
        panic!("the longest duration is over");
    };
    let cut = MachineState {
        hangup: Some(PendingHangup {
            id: CommandId::new(now),
            reason,
            initiator: HangupInitiator::System,
            due_at,
            issued_at: now,
        }),
        ..call
    };
    let in_time = cut.join(after(50), after(71));
    let Ok(Step::Joined(in_time)) = in_time else {
        panic!("{in_time:?}");
    };
    assert_eq!(
        (&in_time.hangup, in_time.joined_at),
        (&None, Some(after(50)))
    );
    let late = joined(&cut, 71);
    assert_eq!(late.joined_at, Some(after(60)));
    let Some(DueAction::End(end)) = late.due(after(80), after(80), &RULES) else {
        panic!("the cut is carried out");
    };
    assert_eq!(
        (end.reason, end.talk_seconds),
        (HangupReason::MaxDuration, 60)
    );
}

#[derive(Clone, Debug)]
enum Happening {
    Answer {
        ago: i64,
    },
    Join {
        ago: i64,
    },
    HangUp {
        ago: i64,
        reason: usize,
        initiator: bool,
    },
    Fail {
        ago: i64,
        reason: usize,
    },
    Request,
    TopUp(i64),
    Silence,
    Return,
    /// The service is away for so long.
    Restart(i64),
}

fn happenings() -> impl Strategy<Value = Vec<(i64, Happening)>> {
    let one = prop_oneof![
        2 => (0..90_000_i64).prop_map(|ago| Happening::Answer { ago }),
        1 => (0..90_000_i64).prop_map(|ago| Happening::Join { ago }),
        1 => (0..400_000_i64, 0..13_usize, any::<bool>())
            .prop_map(|(ago, reason, initiator)| Happening::HangUp { ago, reason, initiator }),
        1 => (0..90_000_i64, 0..4_usize).prop_map(|(ago, reason)| Happening::Fail { ago, reason }),
        1 => Just(Happening::Request),
        2 => (1..4_i64).prop_map(Happening::TopUp),
        1 => Just(Happening::Silence),
        2 => Just(Happening::Return),
        1 => (0..400_000_i64).prop_map(Happening::Restart),
    ];
    prop::collection::vec((0..80_000_i64, one), 1..24)
}

/// Plays a call against a ledger with `balance` minutes. Returns the rule that broke, if any.
fn play(
    balance: i64,
    max_minutes: i64,
    story: &[(i64, Happening)],
    bill: fn(&MachineState, &CallEnding) -> i64,
) -> Result<(), String> {
    let mut now = START;
    let mut call = MachineState::ringing(START, now, max_minutes, &RULES);
    let mut left = balance;
    let mut sign = now;
    let mut here_now = true;
    let mut ends = Vec::new();
    // Long enough after the story for every deadline to pass.
    let tail = (0..40).map(|_| (40_000, Happening::Silence));
    for (pause, happening) in story.iter().cloned().chain(tail) {
        let until = now.plus_ms(pause);
        // The clock moves from deadline to deadline, as the timer does.
        loop {
            if here_now {
                sign = now;
            }
            settle_due(&mut call, now, sign, &mut left, &mut ends)?;
            let Some(next) = call.next_deadline(if here_now { now } else { sign }, &RULES) else {
                break;
            };
            if next <= now {
                return Err(format!(
                    "nothing is due at {now}, yet the next deadline is {next}"
                ));
            }
            if next > until {
                break;
            }
            now = next;
        }
        now = until;
        if here_now {
            sign = now;
        }
        let step = match happening {
            Happening::Answer { ago } => call.answer(now.plus_ms(-ago), now, "m").ok(),
            Happening::Join { ago } => call.join(now.plus_ms(-ago), now).ok(),
            Happening::HangUp {
                ago,
                reason,
                initiator,
            } => {
                let by = if initiator {
                    HangupInitiator::Caller
                } else {
                    HangupInitiator::Agent
                };
                let reason = dikala_protocol::message::HANGUP_REASONS[reason];
                Some(call.hang_up(now.plus_ms(-ago), now, reason, by))
            }
            Happening::Fail { ago, reason } => {
                let reason = dikala_protocol::message::FAILURE_REASONS[reason];
                Some(call.fail(now.plus_ms(-ago), now, reason))
            }
            Happening::Request if !call.is_over() => {
                let pending = PendingHangup {
                    id: CommandId::new(now),
                    reason: HangupReason::Requested,
                    initiator: HangupInitiator::Tenant,
                    due_at: now,
                    issued_at: now,
                };
                call = call.request_hangup(pending).unwrap_or(call);
                None
            }
            Happening::TopUp(minutes) => {
                left += minutes;
                call = call.credited(now);
                None
            }
            Happening::Silence => {
                here_now = false;
                None
            }
            Happening::Return => {
                here_now = true;
                None
            }
            Happening::Restart(ms) => {
                now = now.plus_ms(ms);
                call.resumed_at = now;
                call.warned = None;
                call = call.credited(now);
                None
            }
            Happening::Request => None,
        };
        match step {
            Some(Step::Answered(next) | Step::Joined(next)) => call = *next,
            Some(Step::End(ending)) => end(&mut call, ending, &mut left, &mut ends),
            Some(Step::Repeat) | None => {}
        }
    }
    check(&ends, bill)
}

fn settle_due(
    call: &mut MachineState,
    now: Millis,
    sign: Millis,
    left: &mut i64,
    ends: &mut Vec<(MachineState, CallEnding)>,
) -> Result<(), String> {
    for _ in 0..16 {
        match call.due(now, sign, &RULES) {
            None => return Ok(()),
            Some(DueAction::End(ending)) => end(call, ending, left, ends),
            Some(DueAction::Extend {
                request,
                want,
                started,
            }) => {
                if request != call.credit.request + 1 || want < 1 || started > call.credit.granted {
                    return Err(format!("a strange request: {request} {want} {started}"));
                }
                let granted = want.min(*left);
                *left -= granted;
                *call = call.granted(request, call.credit.granted + granted, granted < want, now);
            }
            Some(DueAction::Warn { reason, .. }) => call.warned = Some(reason),
            Some(DueAction::HangUp { reason, due_at }) => {
                call.hangup = Some(PendingHangup {
                    id: CommandId::new(now),
                    reason,
                    initiator: HangupInitiator::System,
                    due_at,
                    issued_at: now,
                });
            }
        }
    }
    Err("the machine does not come to rest".to_owned())
}

fn end(
    call: &mut MachineState,
    ending: CallEnding,
    left: &mut i64,
    ends: &mut Vec<(MachineState, CallEnding)>,
) {
    let missing = call.minutes(&ending) - call.credit.granted;
    if missing > 0 && !call.credit.last {
        let granted = missing.min(*left);
        *left -= granted;
        let request = call.credit.request + 1;
        *call = call.granted(
            request,
            call.credit.granted + granted,
            granted < missing,
            ending.at,
        );
    }
    ends.push((call.clone(), ending.clone()));
    *call = call.over(&ending);
}

fn check(
    ends: &[(MachineState, CallEnding)],
    bill: fn(&MachineState, &CallEnding) -> i64,
) -> Result<(), String> {
    let [(call, ending)] = ends else {
        return Err(format!("{} ends", ends.len()));
    };
    let billed = bill(call, ending).min(call.credit.granted);
    let rule = match call.answered_at() {
        None => 0,
        Some(_) => Minutes::for_talk(ending.talk_seconds).get(),
    };
    if billed > rule
        || (billed < rule && !call.credit.last && call.credit.granted < call.minutes_max())
    {
        return Err(format!(
            "{billed} minutes billed for {} s of talk",
            ending.talk_seconds
        ));
    }
    if !ending.status.is_final() || ending.duration_seconds < ending.talk_seconds {
        return Err(format!("not an end: {ending:?}"));
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_call_ends_once_and_is_billed_by_the_rule(
        balance in 0..12_i64, max_minutes in 1..8_i64, story in happenings()
    ) {
        let played = play(balance, max_minutes, &story, |call, ending| call.minutes(ending));
        prop_assert!(played.is_ok(), "{played:?}");
    }
}

#[test]
fn a_wrong_bill_is_caught() {
    let story = [
        (1_000, Happening::Answer { ago: 0 }),
        (
            61_000,
            Happening::HangUp {
                ago: 0,
                reason: 0,
                initiator: true,
            },
        ),
    ];
    assert_eq!(
        play(9, 5, &story, |call, ending| call.minutes(ending)),
        Ok(())
    );
    assert!(play(9, 5, &story, |_, ending| ending.talk_seconds / 60).is_err());
    // After 31 s the second minute is granted already, so wrongly billing it would show.
    let short = [
        story[0].clone(),
        (
            31_000,
            Happening::HangUp {
                ago: 0,
                reason: 0,
                initiator: true,
            },
        ),
    ];
    assert!(play(9, 5, &short, |_, _| 2).is_err());
}
