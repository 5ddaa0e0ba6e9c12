//! Talk is covered by grants before it is settled, even if the ledger's answers to the call were lost.

use dikala_entities::{HangupInitiator, HangupReason};
use proptest::prelude::*;

use super::*;
use crate::calls::{
    ending::CallEnding,
    machine::{CallLimits, DueAction, MachineState, Step},
};

const RULES: CallLimits = CallLimits {
    ring_timeout_ms: 60_000,
    warn_before_ms: 30_000,
    hangup_grace_ms: 10_000,
    lost_after_ms: 30_000,
};

/// A talking call, and its ledger.
struct Talk {
    play: Play,
    call: MachineState,
}

/// Asks for minutes. Returns `None` if the answer is lost, else whether no more minutes are left.
type Ask<'a> = &'a mut dyn FnMut(&mut Talk, i64) -> Option<bool>;

impl Talk {
    fn new(minutes: i64) -> Self {
        let mut play = Play::new(minutes);
        let admitted = play.book(admit(play.tenant, play.calls[0], None));
        assert_eq!(admitted, Ok(ItemOutcome::Admission(Admission::Granted)));
        let call = match MachineState::ringing(NOW, NOW, 240, &RULES).answer(NOW, NOW, "m") {
            Ok(Step::Answered(call)) => *call,
            other => panic!("a ringing call can be answered: {other:?}"),
        };
        Self { play, call }
    }

    fn ask(&mut self, want: i64, lost: bool) -> Option<bool> {
        let request = self.call.credit.request + 1;
        let started = self.call.credit.granted;
        let item = extend(self.play.tenant, self.play.calls[0], request, started, want);
        let outcome = self.play.book(item);
        if lost {
            return None;
        }
        match outcome {
            Ok(ItemOutcome::Extension(grant)) => {
                self.call = self.call.granted(request, grant.total, grant.last, NOW);
                Some(grant.last)
            }
            other => panic!("the ledger grants: {other:?}"),
        }
    }

    fn top_up(&mut self, minutes: i64) {
        let item = adjust(self.play.tenant, minutes, None);
        assert!(self.play.book(item).is_ok());
    }
}

/// Asks for all grants that an end needs. Returns false if an answer was lost; the end is then tried again.
type Cover = fn(&mut Talk, &CallEnding, Ask<'_>) -> bool;

fn cover(talk: &mut Talk, ending: &CallEnding, ask: Ask<'_>) -> bool {
    let mut refusals = 0;
    for _ in 0..16 {
        let Some(DueAction::Extend { want, .. }) = talk.call.uncovered(ending, refusals) else {
            return true;
        };
        match ask(talk, want) {
            Some(true) => refusals += 1,
            Some(false) => refusals = 0,
            None => return false,
        }
    }
    panic!("the questions have no end");
}

/// The former rule: one request, and none after a refusal.
fn asks_once(talk: &mut Talk, ending: &CallEnding, ask: Ask<'_>) -> bool {
    let want = talk.call.minutes(ending) - talk.call.credit.granted;
    want <= 0 || talk.call.credit.last || ask(talk, want).is_some()
}

#[derive(Clone, Debug)]
enum Happening {
    Ask { want: i64, lost: bool },
    TopUp(i64),
}

/// Fails if talk was not paid for although credit was left.
fn settles(
    minutes: i64,
    story: &[Happening],
    talked: i64,
    losses: &[bool],
    cover: Cover,
) -> Result<(), String> {
    let mut talk = Talk::new(minutes);
    for happening in story {
        match *happening {
            Happening::Ask { want, lost } => drop(talk.ask(want, lost)),
            Happening::TopUp(minutes) => talk.top_up(minutes),
        }
    }
    let end = NOW.plus_ms(talked * 60_000);
    let (reason, initiator) = (HangupReason::Normal, HangupInitiator::Caller);
    let Step::End(ending) = talk.call.hang_up(end, end, reason, initiator) else {
        return Err("no end".to_owned());
    };
    let mut losses = losses.iter().copied();
    let mut ask = |talk: &mut Talk, want| talk.ask(want, losses.next().unwrap_or(false));
    // The bridge sends its hang-up again until it is answered.
    while !cover(&mut talk, &ending, &mut ask) {}
    let ending = talk.call.covered(ending);
    let (left, ..) = talk.play.minutes();
    let item = settle(
        talk.play.tenant,
        talk.play.calls[0],
        talk.call.minutes(&ending),
    );
    let billed = match talk.play.book(item) {
        Ok(ItemOutcome::Settlement(settled)) => settled.minutes,
        other => return Err(format!("not settled: {other:?}")),
    };
    if billed != talked && left > 0 {
        return Err(format!(
            "{billed} of {talked} minutes were billed, and {left} were left"
        ));
    }
    if billed != talk.call.minutes(&ending) {
        return Err(format!("{billed} minutes were billed for {ending:?}"));
    }
    Ok(())
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        3 => (0..4_i64, any::<bool>()).prop_map(|(want, lost)| Happening::Ask { want, lost }),
        1 => (1..5_i64).prop_map(Happening::TopUp),
    ];
    prop::collection::vec(one, 0..8)
}

proptest! {
    #[test]
    fn talk_is_covered_or_refused_whichever_answers_are_lost(
        minutes in 1..12_i64,
        story in happenings(),
        talked in 1..20_i64,
        losses in prop::collection::vec(any::<bool>(), 0..6),
    ) {
        let settled = settles(minutes, &story, talked, &losses, cover);
        prop_assert!(settled.is_ok(), "{settled:?}");
    }
}

#[test]
fn a_settlement_that_asks_once_is_caught() {
    let lost = [Happening::Ask {
        want: 1,
        lost: true,
    }];
    let refused = [
        Happening::Ask {
            want: 2,
            lost: true,
        },
        Happening::TopUp(5),
    ];
    for (minutes, story) in [(10, &lost[..]), (2, &refused[..])] {
        assert_eq!(settles(minutes, story, 5, &[], cover), Ok(()));
        assert!(settles(minutes, story, 5, &[], asks_once).is_err());
    }
}
