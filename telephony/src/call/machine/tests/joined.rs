//! Callers who are joined to a person.

use super::*;

const PERSON: &str = "+622150009999";

fn has_answered() -> MachineInput {
    let to = PERSON.to_owned();
    MachineInput::Leg(LegEvent::Joined { to })
}

/// A call that is joined to a person after a few words, with what that gave.
fn joined() -> (Story, Vec<MachineEffect>) {
    let mut call = connecting();
    let effects = call.on(has_answered());
    (call, effects)
}

/// A joined call whose summary is written.
fn joined_and_summed_up() -> Story {
    let (mut call, _) = joined();
    call.on(MachineInput::Voice(VoiceEvent::Summary(
        "About a cake.".to_owned(),
    )));
    call.wait(300);
    call
}

#[test]
fn a_function_that_is_refused_later_makes_no_second_transcript() {
    let mut call = joined_and_summed_up();
    call.on(MachineInput::Service(declined(
        MessageType::Function,
        Some("a"),
        "busy",
    )));
    let told = told(&call.on(MachineInput::Leg(LegEvent::HungUp)));
    assert_eq!(told, ["hangup transferred caller 0 at 300"]);
}

fn closes_voice(effects: &[MachineEffect]) -> bool {
    effects.contains(&MachineEffect::CloseVoice)
}

#[test]
fn the_service_learns_of_it_and_the_voice_leaves_with_a_summary() {
    let mut call = connecting();
    call.on(usage(2, 0));
    let effects = call.on(has_answered());
    assert_eq!(told(&effects), [format!("transferred {PERSON} 2 at 0")]);
    assert_eq!(tells(&effects), [&VoiceInput::Summarise]);
    assert!(orders(&effects).is_empty(), "the call goes on");
    let summary = VoiceEvent::Summary("About a cake.".to_owned());
    assert!(!closes_voice(&call.on(MachineInput::Voice(summary))));
    call.on(usage(1, 0));
    let effects = call.wait(300);
    assert!(closes_voice(&effects));
    let said = told(&effects);
    assert!(
        said.len() == 1 && said[0].ends_with("About a cake."),
        "{said:?}"
    );
    // An hour later the caller hangs up.
    assert!(call.wait(3_600_000).is_empty());
    let told = told(&call.on(MachineInput::Leg(LegEvent::HungUp)));
    assert_eq!(told, ["hangup transferred caller 3 at 3600300"]);
    assert!(call.machine.is_over());
}

#[test]
fn the_transcript_names_the_person() {
    for outcome in [
        has_answered(),
        MachineInput::Leg(LegEvent::Transfer(Ok(()))),
    ] {
        let mut call = connecting();
        let mut effects = call.on(outcome);
        effects.extend(call.wait(3_000));
        let turns = effects.iter().find_map(|effect| match effect {
            MachineEffect::Service(CallReport::Transcript { turns, .. }, _) => Some(turns),
            _ => None,
        });
        let last = turns.and_then(|turns| turns.last()).expect("a turn");
        let expected = format!("connected to {PERSON}");
        assert_eq!(
            (last.role, last.text.as_str()),
            (Speaker::Tool, expected.as_str())
        );
    }
}

#[test]
fn the_agents_tool_call_is_answered() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "transfer_to_human", json!({})));
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.play(&effects);
    let effects = call.on(has_answered());
    let connected = json!({"output": {"connected": true}});
    assert_eq!(answered_with(&effects), [("t".to_owned(), connected)]);
}

#[test]
fn without_a_summary_in_time_the_voice_is_closed() {
    let (mut call, _) = joined();
    assert!(!closes_voice(&call.wait(999)));
    let effects = call.wait(1);
    assert!(closes_voice(&effects));
    assert!(
        told(&effects)[0].starts_with("transcript agent: Hello"),
        "{effects:?}"
    );
    let ended = told(&call.on(MachineInput::Leg(LegEvent::Parted)));
    assert_eq!(ended, ["hangup transferred bridge 0 at 1000"]);
    // The caller hangs up while the summary is awaited.
    let (mut call, _) = joined();
    assert!(told(&call.on(MachineInput::Leg(LegEvent::HungUp))).is_empty());
    assert_eq!(
        told(&call.wait(1_000))[0],
        "hangup transferred caller 0 at 0"
    );
    // The model is lost.
    let (mut call, _) = joined();
    assert!(closes_voice(&call.on(MachineInput::VoiceGone)));
    assert!(!call.machine.is_over());
}

#[test]
fn it_ends_from_outside_at_once_and_both_hear_a_warning() {
    for reason in [HangupReason::Requested, HangupReason::CreditsExhausted] {
        let mut call = joined_and_summed_up();
        let warning = CommandKind::Warn {
            reason: HangupReason::CreditsExhausted,
            seconds_left: 30,
        };
        let effects = call.on(command(warning));
        assert_eq!(orders(&effects), [&Order::Announce(warning_tone())]);
        let effects = call.on(hangup(reason));
        assert!(hung_up(&effects), "{reason}");
        assert!(
            told(&effects)[0].starts_with(&format!("hangup {reason} bridge")),
            "{reason}"
        );
    }
}

#[test]
fn the_agents_longest_duration_ends_no_joined_call_and_lost_media_does() {
    let mut call = joined_and_summed_up();
    assert!(call.on(hangup(HangupReason::MaxDuration)).is_empty());
    let effects = call.on(MachineInput::Leg(LegEvent::MediaLost));
    assert!(hung_up(&effects));
    assert!(
        told(&effects)[0].starts_with("failed media_lost"),
        "{effects:?}"
    );
}

#[test]
fn a_joined_caller_is_transferred_no_more() {
    let mut call = joined_and_summed_up();
    let transfer = CommandKind::Transfer { to: person() };
    assert!(call.on(command(transfer)).is_empty());
    let late = LegEvent::Transfer(Err("a transfer is under way".to_owned()));
    assert!(call.on(MachineInput::Leg(late)).is_empty());
}

#[test]
fn both_are_told_before_the_bridge_stops_or_when_the_service_is_lost() {
    let announced = |effects: &[MachineEffect]| match orders(effects)[..] {
        [Order::Announce(samples)] => samples.len() as u64 * 1_000 / 24_000,
        _ => panic!("{effects:?}"),
    };
    let mut call = joined_and_summed_up();
    let length_ms = announced(&call.on(MachineInput::Stop { within_ms: 10_000 }));
    assert!(call.wait(length_ms).is_empty());
    let effects = call.wait(500);
    assert!(hung_up(&effects));
    assert!(told(&effects)[0].starts_with("hangup transferred bridge"));
    // The time that is left cuts the sentence.
    let mut call = joined_and_summed_up();
    announced(&call.on(MachineInput::Stop { within_ms: 300 }));
    assert!(hung_up(&call.wait(300)));
    // The bridge stops while both hear that the service is lost.
    let mut call = joined_and_summed_up();
    call.on(MachineInput::ServiceStands(false));
    announced(&call.wait(30_000));
    assert!(call.on(MachineInput::Stop { within_ms: 100 }).is_empty());
    assert!(hung_up(&call.wait(100)));
    // The service is away for too long.
    let mut call = joined_and_summed_up();
    call.on(MachineInput::ServiceStands(false));
    let length_ms = announced(&call.wait(30_000));
    let effects = call.wait(length_ms + 500);
    assert!(hung_up(&effects));
    assert!(
        told(&effects)[0].starts_with("failed bridge_error"),
        "{:?}",
        told(&effects)
    );
}

#[test]
fn a_call_that_is_about_to_end_ends_although_somebody_answers() {
    let mut call = connecting();
    call.on(MachineInput::Stop { within_ms: 10_000 });
    assert!(call.on(has_answered()).is_empty());
    let effects = call.wait(10_000);
    assert!(hung_up(&effects) && call.machine.is_over());
}

/// The call was cancelled at the moment of the answer.
#[test]
fn a_person_who_answers_in_the_last_moment_has_the_caller() {
    let mut call = connecting();
    let effects = call.wait(140_000);
    assert_eq!(orders(&effects), [&Order::CancelTransfer]);
    let effects = call.on(has_answered());
    assert!(told(&effects)[0].starts_with("transferred"), "{effects:?}");
}

#[test]
fn a_voice_that_was_closed_is_not_heard() {
    let mut call = joined_and_summed_up();
    for late in [
        VoiceEvent::CallerSaid("late".to_owned()),
        VoiceEvent::AgentSaid("late".to_owned()),
        VoiceEvent::Summary("late".to_owned()),
        VoiceEvent::Lost("late".to_owned()),
    ] {
        assert_eq!(call.on(MachineInput::Voice(late)), []);
    }
    let effects = call.on(MachineInput::Leg(LegEvent::HungUp));
    assert_eq!(told(&effects).len(), 1, "the end, and no second transcript");
}
