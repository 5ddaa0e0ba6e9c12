//! Turns that are reported as they are heard.

use super::*;

/// The reported turns: number, speaker, words, and `…` for one that was cut off.
fn heard(effects: &[MachineEffect]) -> Vec<String> {
    let line = |effect: &MachineEffect| match effect {
        MachineEffect::Service(CallReport::Turn { turn }, _) => {
            let cut = if turn.turn.interrupted { "…" } else { "" };
            Some(format!(
                "{} {}: {}{cut}",
                turn.n, turn.turn.role, turn.turn.text
            ))
        }
        _ => None,
    };
    effects.iter().filter_map(line).collect()
}

fn turn_over() -> MachineInput {
    MachineInput::Voice(VoiceEvent::TurnOver)
}

#[test]
fn the_agents_turn_is_heard_when_it_was_played_and_the_callers_when_it_is_answered() {
    let mut call = Story::talking();
    call.on(AUDIO());
    assert_eq!(heard(&call.on(said(Speaker::Agent, "Halo."))), [""; 0]);
    let effects = call.on(turn_over());
    assert_eq!(heard(&effects), [""; 0], "it is not played");
    assert_eq!(heard(&call.play(&effects)), ["1 agent: Halo."]);

    assert_eq!(heard(&call.on(said(Speaker::Caller, "Ada"))), [""; 0]);
    assert_eq!(heard(&call.on(AUDIO())), ["2 caller: Ada"]);
    // Words that a model transcribes late replace the turn.
    call.on(said(Speaker::Caller, " oat?"));
    call.on(said(Speaker::Agent, "Ada."));
    let effects = call.on(turn_over());
    assert_eq!(heard(&effects), ["2 caller: Ada oat?"]);
    assert_eq!(heard(&call.play(&effects)), ["3 agent: Ada."]);
    assert_eq!(heard(&call.on(MachineInput::Time)), [""; 0], "once");
}

#[test]
fn of_a_turn_that_was_cut_off_the_heard_part_is_told() {
    let mut call = Story::talking();
    for _ in 0..100 {
        call.on(AUDIO());
    }
    call.on(said(Speaker::Agent, "Satu dua tiga empat."));
    call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    let effects = call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    assert_eq!(heard(&effects), [""; 0], "it is not known what was heard");
    let total_played_ms = 1_000;
    let effects = call.on(MachineInput::Leg(LegEvent::Flushed { total_played_ms }));
    assert_eq!(heard(&effects), ["1 agent: Satu dua…"]);
}

#[test]
fn masked_keys_are_masked_at_once() {
    let mut call = Story::talking();
    let agent = call.machine.agent.as_mut().expect("an agent");
    agent.conversation.mask_keys = true;
    call.machine.transcript.hide_digits();
    for key in ['4', '2', '7'] {
        call.on(MachineInput::Leg(LegEvent::Key(key)));
    }
    let effects = call.on(MachineInput::Leg(LegEvent::Key('#')));
    assert_eq!(heard(&effects), ["1 caller: the caller pressed • • • #"]);
    // Whoever says a secret before pressing it.
    call.on(said(Speaker::Caller, "It is 9876."));
    assert_eq!(heard(&call.on(AUDIO())), ["2 caller: It is ••••."]);
}

#[test]
fn an_older_service_is_told_one_turn() {
    let mut call = Story::talking();
    let greets = |call: &mut Story| {
        call.on(AUDIO());
        call.on(said(Speaker::Agent, "Halo."));
        let effects = call.on(turn_over());
        heard(&call.play(&effects))
    };
    assert_eq!(greets(&mut call), ["1 agent: Halo."]);
    call.on(MachineInput::Service(declined(
        MessageType::Turn,
        None,
        "unknown_type",
    )));
    assert_eq!(greets(&mut call), [""; 0]);
}
