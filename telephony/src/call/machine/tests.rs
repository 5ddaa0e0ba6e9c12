//! Calls, as stories and at random.

mod faults;
mod figures;
mod guarded;
mod joined;
mod simulated;
mod turns;

use dikala_entities::{
    CallId, ChannelKind, InterruptionMode, Millis, PhoneNumber, Speaker, VoiceProvider,
};
use dikala_protocol::{
    CalledParty, CalleeNames,
    client::{MessageRef, ReplyDelay},
};
use dikala_sip::{leg::Speech, warning_tone};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    settings::Prices,
    voice::{Usage, VoiceInput},
};

/// A machine that is fed inputs, with the effects that it gave.
struct Story {
    machine: CallMachine,
    ms: u64,
    effects: Vec<MachineEffect>,
}

fn agent() -> Box<CallAgent> {
    let agent = json!({
        "id": "agent_1", "name": "Ayu", "systemPrompt": "", "voiceId": "Kore", "greetingText": "Halo", "language": "en",
        "maxCallDurationMinutes": 10, "escalationNumber": "+622150009999", "tools": ["end_call", "transfer_to_human"],
        "functions": [{"name": "check_order", "description": "", "parameters": {}}]
    });
    Box::new(serde_json::from_value(agent).expect("an agent"))
}

fn rules() -> CallRules {
    let prices = Prices {
        audio_in: 1_000_000_000,
        audio_out: 2_000_000_000,
        ..Prices::default()
    };
    CallRules {
        barge_in: true,
        voices: vec![(VoiceProvider::Gemini, Some(prices))],
        preferred: vec![VoiceProvider::Gemini],
        opens_early: false,
        service_lost_after_ms: 30_000,
    }
}

/// Rules with a second provider, which has no prices.
fn rules_with_fallback() -> CallRules {
    let mut rules = rules();
    rules.voices.push((VoiceProvider::Openai, None));
    rules.preferred.push(VoiceProvider::Openai);
    rules
}

fn origin() -> CallOrigin {
    CallOrigin {
        caller: "+6281234567890".to_owned(),
        channel: ChannelKind::Phone,
    }
}

fn now(ms: u64) -> Now {
    Now {
        ms,
        at: Millis::from_i64(i64::try_from(ms).unwrap_or(i64::MAX)),
    }
}

fn replied(reply: ServiceReply) -> ServiceEvent {
    ServiceEvent::Reply(reply, ReplyDelay::default())
}

fn call_id() -> CallId {
    "call_01k9zv3m8rj2q4w6y8a0c2e4g6".parse().expect("an id")
}

fn taken() -> MachineInput {
    taken_for(agent())
}

fn taken_for(agent: Box<CallAgent>) -> MachineInput {
    MachineInput::Service(replied(ServiceReply::Taken {
        call: call_id(),
        called: called(),
        agent,
        callee: CalleeNames::default(),
    }))
}

fn did() -> PhoneNumber {
    "+622150001000".parse().expect("a number")
}

fn called() -> CalledParty {
    did().into()
}

fn answer_order() -> Order {
    let did = did().as_str().to_owned();
    Order::Answer { did }
}

fn person() -> PhoneNumber {
    "+622150009999".parse().expect("a number")
}

fn declined(kind: MessageType, invocation: Option<&str>, code: &str) -> ServiceEvent {
    replied(ServiceReply::Declined {
        message: MessageRef {
            kind,
            called: None,
            invocation_id: invocation.map(str::to_owned),
        },
        code: code.to_owned(),
        words: String::new(),
        status: None,
    })
}

fn command(command: CommandKind) -> MachineInput {
    MachineInput::Service(ServiceEvent::Command(command))
}

fn hangup(reason: HangupReason) -> MachineInput {
    command(CommandKind::Hangup { reason })
}

fn tool(id: &str, name: &str, arguments: Value) -> MachineInput {
    MachineInput::Voice(VoiceEvent::Tool {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.as_object().cloned().unwrap_or_default(),
    })
}

fn outcome(id: &str, result: Value) -> MachineInput {
    MachineInput::Service(replied(ServiceReply::Outcome {
        invocation_id: id.to_owned(),
        outcome: InvocationOutcome::Ok {
            result: result.as_object().cloned().unwrap_or_default(),
        },
    }))
}

fn said(role: Speaker, text: &str) -> MachineInput {
    MachineInput::Voice(match role {
        Speaker::Caller => VoiceEvent::CallerSaid(text.to_owned()),
        _ => VoiceEvent::AgentSaid(text.to_owned()),
    })
}

fn usage(audio_in: u64, audio_out: u64) -> MachineInput {
    MachineInput::Voice(VoiceEvent::Usage(Usage {
        audio_in,
        audio_out,
        ..Usage::default()
    }))
}

const AUDIO: fn() -> MachineInput = || MachineInput::Voice(VoiceEvent::Audio(vec![1_000; 480]));

impl Story {
    fn new() -> Self {
        Self::with(rules())
    }

    fn with(rules: CallRules) -> Self {
        let mut effects = Vec::new();
        let machine = CallMachine::new(rules, origin(), now(0), &mut effects);
        Self {
            machine,
            ms: 0,
            effects,
        }
    }

    /// An answered call with a ready voice.
    fn talking() -> Self {
        Self::talking_with(rules())
    }

    fn talking_with(rules: CallRules) -> Self {
        let mut story = Self::with(rules);
        story.on(taken());
        story.on(MachineInput::Leg(LegEvent::Answered));
        story.on(MachineInput::Voice(VoiceEvent::Ready));
        story.effects.clear();
        story
    }

    fn on(&mut self, input: MachineInput) -> Vec<MachineEffect> {
        self.machine.step(now(self.ms), input, &mut self.effects);
        let effects = std::mem::take(&mut self.effects);
        self.effects.clear();
        effects
    }

    /// The caller holds the call, so the guard waits.
    fn hold(&mut self) {
        self.on(MachineInput::Leg(LegEvent::Held(true)));
    }

    /// The caller's voice begins. Returns the orders to the phone.
    fn caller_speaks(&mut self) -> Vec<Order> {
        let effects = self.on(MachineInput::Leg(LegEvent::VoiceStarted));
        orders(&effects).into_iter().cloned().collect()
    }

    /// Advances the time and returns the effects that were due meanwhile.
    fn wait(&mut self, ms: u64) -> Vec<MachineEffect> {
        let until = self.ms + ms;
        let mut all = Vec::new();
        while let Some(due) = self.machine.due().filter(|due| *due <= until) {
            self.ms = self.ms.max(due);
            all.extend(self.on(MachineInput::Time));
        }
        self.ms = until;
        all
    }

    /// Confirms every mark in the effects as played.
    fn play(&mut self, effects: &[MachineEffect]) -> Vec<MachineEffect> {
        let marks: Vec<u64> = marks(effects);
        let mut all = Vec::new();
        for mark in marks {
            all.extend(self.on(MachineInput::Leg(LegEvent::Played(mark))));
        }
        all
    }
}

fn marks(effects: &[MachineEffect]) -> Vec<u64> {
    let mark = |effect: &MachineEffect| match effect {
        MachineEffect::Say(Speech::Mark(mark)) => Some(*mark),
        _ => None,
    };
    effects.iter().filter_map(mark).collect()
}

/// The service's messages besides turns, abbreviated.
fn told(effects: &[MachineEffect]) -> Vec<String> {
    let line = |effect: &MachineEffect| match effect {
        MachineEffect::Service(message, at) => Some(match message {
            CallReport::Answered => "answered".to_owned(),
            CallReport::Turn { .. } => return None,
            CallReport::Function(function) => {
                format!("{} {}", function.name, function.invocation_id)
            }
            CallReport::Transcript { summary, .. } => format!("transcript {summary}"),
            CallReport::Transferred { to, ai_cost_idr } => {
                let cost = ai_cost_idr.unwrap_or_default();
                format!("transferred {} {cost} at {}", to.as_str(), at.as_i64())
            }
            CallReport::Hangup {
                reason,
                initiator,
                ai_cost_idr,
                ..
            } => {
                let cost = ai_cost_idr.unwrap_or_default();
                format!("hangup {reason} {initiator} {cost} at {}", at.as_i64())
            }
            CallReport::Failed {
                reason,
                detail,
                ai_cost_idr,
                ..
            } => {
                let detail = detail.as_deref().unwrap_or_default();
                let cost = ai_cost_idr.map_or_else(String::new, |cost| format!(", {cost} IDR"));
                format!("failed {reason}: {detail}{cost}")
            }
        }),
        _ => None,
    };
    effects.iter().filter_map(line).collect()
}

fn orders(effects: &[MachineEffect]) -> Vec<&Order> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            MachineEffect::Leg(order) => Some(order),
            _ => None,
        })
        .collect()
}

fn hung_up(effects: &[MachineEffect]) -> bool {
    let mut orders = orders(effects).into_iter();
    orders.any(|order| matches!(order, Order::Hangup(_)))
}

fn speaks(effects: &[MachineEffect]) -> usize {
    let speech = |effect: &&MachineEffect| matches!(effect, MachineEffect::Say(Speech::Audio(_)));
    effects.iter().filter(speech).count()
}

/// The voice's inputs, without audio.
fn tells(effects: &[MachineEffect]) -> Vec<&VoiceInput> {
    let tells = effects.iter().filter_map(|effect| match effect {
        MachineEffect::Voice(spoken) => Some(spoken),
        _ => None,
    });
    tells
        .filter(|tell| !matches!(tell, VoiceInput::Audio(_)))
        .collect()
}

fn answered_with(effects: &[MachineEffect]) -> Vec<(String, Value)> {
    let answer = |tell: &VoiceInput| match tell {
        VoiceInput::ToolOutcome { id, outcome } => {
            Some((id.clone(), Value::Object(outcome.fields())))
        }
        _ => None,
    };
    tells(effects).into_iter().filter_map(answer).collect()
}

#[test]
fn a_call_from_ringing_to_the_callers_hang_up() {
    let mut call = Story::new();
    assert_eq!(orders(&call.effects), [&Order::Ring]);
    assert!(told(&call.effects).is_empty());
    call.effects.clear();
    let effects = call.on(taken());
    assert_eq!(orders(&effects), [&answer_order()]);
    let opens = |effects: &[MachineEffect]| {
        let mut effects = effects.iter();
        effects.any(
            |effect| matches!(effect, MachineEffect::OpenVoice(_, setup) if setup.call_id == call_id().to_string()),
        )
    };
    assert!(!opens(&effects), "a forged call would cost a greeting");
    let effects = call.on(MachineInput::Leg(LegEvent::Answered));
    assert!(opens(&effects));
    assert_eq!(told(&effects), ["answered"]);
    assert!(call.machine.listens());
    assert_eq!(speaks(&call.on(AUDIO())), 1);
    assert_eq!(
        marks(&call.on(MachineInput::Voice(VoiceEvent::TurnOver))),
        [1]
    );
    let heard = call.on(MachineInput::Leg(LegEvent::Audio(vec![5; 320])));
    assert_eq!(
        heard,
        [MachineEffect::Voice(VoiceInput::Audio(vec![5; 320]))]
    );
    call.wait(9_000);
    let effects = call.on(MachineInput::Leg(LegEvent::HungUp));
    assert!(!hung_up(&effects) && told(&effects).is_empty());
    assert_eq!(told(&call.wait(300)), ["hangup normal caller 0 at 9000"]);
    assert!(call.machine.is_over());
}

#[test]
fn refusals_become_the_phones_own() {
    for (reason, status) in [
        (HangupReason::NoAgent, 480),
        (HangupReason::AgentInactive, 480),
        (HangupReason::NumberInactive, 480),
        (HangupReason::InsufficientCredits, 402),
        (HangupReason::ConcurrencyLimit, 486),
        (HangupReason::TenantSuspended, 403),
    ] {
        let mut call = Story::new();
        call.effects.clear();
        let effects = call.on(MachineInput::Service(replied(ServiceReply::Refused {
            reason,
        })));
        assert!(
            matches!(orders(&effects)[..], [Order::Reject(refusal)] if refusal.status == status && !refusal.words.is_empty())
        );
        assert!(told(&effects).is_empty() && call.machine.is_over());
    }
    for (code, status) in [("unknown_number", 404), ("invalid_message", 500)] {
        let mut call = Story::new();
        call.effects.clear();
        let effects = call.on(MachineInput::Service(declined(
            MessageType::Incoming,
            None,
            code,
        )));
        assert!(
            matches!(orders(&effects)[..], [Order::Reject(refusal)] if refusal.status == status)
        );
    }
}

#[test]
fn without_a_service_the_phone_is_told_soon() {
    let refused = |effects: &[MachineEffect]| {
        let retry = |order: &&Order| matches!(order, Order::Reject(refusal) if refusal.status == 503 && refusal.retry_after_seconds.is_some());
        orders(effects).iter().any(retry)
    };
    let mut call = Story::new();
    call.on(MachineInput::ServiceStands(false));
    assert!(!refused(&call.wait(1_999)) && refused(&call.wait(1)));
    // The service is connected and does not decide.
    let mut call = Story::new();
    call.on(MachineInput::ServiceStands(true));
    assert!(!refused(&call.wait(9_999)));
    let effects = call.wait(1);
    assert!(refused(&effects));
    assert_eq!(told(&effects), ["hangup rejected bridge 0 at 10000"]);
    // The service comes back in time.
    let mut call = Story::new();
    call.on(MachineInput::ServiceStands(false));
    call.wait(1_000);
    call.on(MachineInput::ServiceStands(true));
    call.wait(3_000);
    assert_eq!(orders(&call.on(taken())), [&answer_order()]);
}

#[test]
fn a_caller_who_gives_up_has_abandoned_the_call() {
    let mut ringing = Story::new();
    ringing.effects.clear();
    let effects = ringing.on(MachineInput::Leg(LegEvent::Cancelled));
    assert_eq!(told(&effects), ["hangup abandoned caller 0 at 0"]);
    let mut answering = Story::new();
    answering.on(taken());
    let effects = answering.on(MachineInput::Leg(LegEvent::Cancelled));
    assert_eq!(told(&effects), ["hangup abandoned caller 0 at 0"]);
    assert!(answering.machine.is_over());
}

#[test]
fn a_caller_who_interrupts_is_listened_to() {
    let mut call = Story::talking();
    call.on(AUDIO());
    let effects = call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    assert_eq!(orders(&effects), [&Order::Pause]);
    call.wait(300);
    let effects = call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    assert_eq!(orders(&effects), [&Order::Flush]);
    assert!(
        !call.machine.listens(),
        "what comes now must not be thrown away"
    );
    let effects = call.on(MachineInput::Leg(LegEvent::Flushed {
        total_played_ms: 12,
    }));
    assert_eq!(
        tells(&effects),
        [&VoiceInput::Interrupted { played_ms: 12 }]
    );
    assert!(call.machine.listens());
    assert!(call.wait(5_000).is_empty());
}

#[test]
fn a_sentence_of_the_bridge_is_not_what_the_voice_said() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::Away));
    let filler: usize = call.wait(1_500).iter().map(samples_of).sum();
    assert!(filler > 24_000 / 2, "{filler}");
    call.on(MachineInput::Voice(VoiceEvent::Reconnected));
    for _ in 0..100 {
        call.on(AUDIO());
    }
    call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    let total_played_ms = filler as u64 / 24 + 1_000;
    let effects = call.on(MachineInput::Leg(LegEvent::Flushed { total_played_ms }));
    let heard = [999, 1_000].map(|played_ms| VoiceInput::Interrupted { played_ms });
    assert!(heard.contains(tells(&effects)[0]), "{:?}", tells(&effects));
    // It counts from there.
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    let total_played_ms = total_played_ms + 15;
    let effects = call.on(MachineInput::Leg(LegEvent::Flushed { total_played_ms }));
    assert_eq!(
        tells(&effects),
        [&VoiceInput::Interrupted { played_ms: 15 }]
    );
}

fn samples_of(effect: &MachineEffect) -> usize {
    match effect {
        MachineEffect::Say(Speech::Audio(samples)) => samples.len(),
        _ => 0,
    }
}

#[test]
fn the_agent_goes_on_where_the_model_takes_nothing_for_an_interruption() {
    let mut call = Story::talking();
    assert_eq!(call.caller_speaks(), [], "nothing is being said");
    call.on(AUDIO());
    assert_eq!(call.caller_speaks(), [Order::Pause]);
    call.wait(200);
    let effects = call.on(MachineInput::Leg(LegEvent::VoiceEnded));
    assert_eq!(orders(&effects), [&Order::Continue]);
    // A noise without end does not silence the agent.
    assert_eq!(call.caller_speaks(), [Order::Pause]);
    assert!(call.wait(2_999).is_empty());
    assert_eq!(orders(&call.wait(1)), [&Order::Continue]);
    // Once everything was played there is nothing to pause.
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.play(&effects);
    assert_eq!(call.caller_speaks(), []);
    let mut patient = Story::talking();
    patient.machine.rules.barge_in = false;
    patient.on(AUDIO());
    assert_eq!(patient.caller_speaks(), []);
    for mode in [InterruptionMode::Model, InterruptionMode::Off] {
        let mut call = Story::talking();
        let agent = call.machine.agent.as_mut().expect("an agent");
        agent.conversation.interruptions = mode;
        call.on(AUDIO());
        assert_eq!(call.caller_speaks(), []);
    }
}

#[test]
fn the_agent_hangs_up_once_all_it_said_was_heard() {
    let mut call = Story::talking();
    call.on(said(Speaker::Caller, "bye"));
    call.on(AUDIO());
    let effects = call.on(tool("t1", "end_call", json!({})));
    assert_eq!(answered_with(&effects)[0].0, "t1");
    // More of the goodbye after the tool call.
    call.wait(1_000);
    assert_eq!(speaks(&call.on(AUDIO())), 1);
    call.on(said(Speaker::Agent, "goodbye"));
    call.wait(1_400);
    let effects = call.wait(100);
    assert_eq!(marks(&effects).len(), 1);
    assert!(call.wait(20_000).is_empty(), "it is still being played");
    assert!(!hung_up(&call.play(&effects)), "the caller may still speak");
    let effects = call.wait(300);
    assert!(hung_up(&effects));
    assert_eq!(tells(&effects), [&VoiceInput::Summarise]);
    call.on(usage(10, 20));
    call.on(MachineInput::Voice(VoiceEvent::Summary(
        "All is well.".to_owned(),
    )));
    // The usage of the last turn comes after it.
    call.wait(299);
    call.on(usage(1, 0));
    assert_eq!(
        told(&call.wait(1)),
        ["hangup normal agent 51 at 22800", "transcript All is well."]
    );
    assert!(call.machine.is_over());
}

#[test]
fn without_a_summary_in_time_the_first_and_last_turns_stand_in() {
    // A summary that has begun gets more time.
    for (begins_at, told_at) in [(None, 1_000), (Some(999), 3_000)] {
        let mut call = Story::talking();
        call.on(said(Speaker::Agent, "Hello"));
        call.on(said(Speaker::Caller, "Hi"));
        assert!(told(&call.on(MachineInput::Leg(LegEvent::HungUp))).is_empty());
        if let Some(ms) = begins_at {
            assert!(told(&call.wait(ms)).is_empty());
            call.on(MachineInput::Voice(VoiceEvent::Summarising));
        }
        assert!(told(&call.wait(told_at - 1 - call.ms)).is_empty());
        assert_eq!(
            told(&call.wait(1)),
            [
                "hangup normal caller 0 at 0",
                "transcript agent: Hello\ncaller: Hi"
            ]
        );
    }
}

#[test]
fn what_is_billed_right_after_the_end_counts() {
    // Interrupted at the very end, with speech flushed.
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::Interrupted));
    assert!(told(&call.on(MachineInput::Leg(LegEvent::HungUp))).is_empty());
    assert!(call.machine.listens(), "the bill is to be heard");
    call.wait(299);
    call.on(usage(7, 0));
    assert_eq!(told(&call.wait(1)), ["hangup normal caller 7 at 0"]);
    // Without prices there is no usage to wait for.
    let mut free = Story::talking();
    free.machine.rules.voices[0].1 = None;
    free.on(said(Speaker::Agent, "Hello"));
    let effects = free.on(MachineInput::Leg(LegEvent::HungUp));
    assert_eq!(told(&effects)[0], "hangup normal caller 0 at 0");
    let mut free = Story::talking();
    free.machine.rules.voices[0].1 = None;
    free.on(said(Speaker::Agent, "Hello"));
    free.on(said(Speaker::Caller, "Hi"));
    free.on(MachineInput::Leg(LegEvent::HungUp));
    let effects = free.on(MachineInput::Voice(VoiceEvent::Summary(
        "Hello.".to_owned(),
    )));
    assert_eq!(told(&effects)[1], "transcript Hello.");
}

#[test]
fn a_command_ends_the_call_after_what_is_being_said_for_two_seconds_at_most() {
    let mut call = Story::talking();
    assert!(
        hung_up(&call.on(hangup(HangupReason::Requested))),
        "nothing is being said"
    );
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Leg(LegEvent::VoiceStarted));
    let effects = call.on(hangup(HangupReason::MaxDuration));
    assert_eq!(orders(&effects), [&Order::Continue]);
    assert_eq!(speaks(&call.on(AUDIO())), 0, "nothing new is said");
    assert!(!hung_up(&call.wait(1_999)));
    assert!(hung_up(&call.wait(1)));
    assert_eq!(
        told(&call.wait(300)),
        ["hangup max_duration bridge 0 at 2000"]
    );
    let mut call = Story::talking();
    call.on(AUDIO());
    let effects = call.on(hangup(HangupReason::Operator));
    assert!(hung_up(&call.play(&effects)), "all was heard");
    let mut ringing = Story::new();
    ringing.on(taken());
    assert!(hung_up(&ringing.on(hangup(HangupReason::Requested))));
}

#[test]
fn a_warning_lets_the_agent_say_goodbye() {
    let mut call = Story::talking();
    let effects = call.on(command(CommandKind::Warn {
        reason: HangupReason::CreditsExhausted,
        seconds_left: 30,
    }));
    assert!(
        matches!(tells(&effects)[..], [VoiceInput::Goodbye(words)] if words.contains("30 seconds"))
    );
}

#[test]
fn a_function_is_called_and_its_result_given_to_the_model() {
    let mut call = Story::talking();
    let effects = call.on(tool("f1", "check_order", json!({"orderId": "1"})));
    assert_eq!(told(&effects), ["check_order f1"]);
    let effects = call.on(outcome("f1", json!({"minutes": 20})));
    assert_eq!(
        answered_with(&effects),
        [("f1".to_owned(), json!({"output": {"minutes": 20}}))]
    );
    call.on(tool("f2", "check_order", json!({"orderId": "2"})));
    let effects = call.on(outcome("f2", json!({})));
    assert_eq!(
        answered_with(&effects)[0].1,
        json!({"output": {"done": true}}),
        "an empty answer is asked for again"
    );
    call.on(tool("f3", "check_order", json!({"orderId": "3"})));
    let effects = call.on(MachineInput::Service(declined(
        MessageType::Function,
        Some("f3"),
        "busy",
    )));
    assert_eq!(answered_with(&effects)[0].1["error"]["code"], "busy");
    // The model has reconnected and repeats its call.
    call.on(MachineInput::Voice(VoiceEvent::Away));
    call.on(MachineInput::Voice(VoiceEvent::Reconnected));
    let effects = call.on(tool("g1", "check_order", json!({"orderId": "1"})));
    assert!(told(&effects).is_empty());
    assert_eq!(
        answered_with(&effects),
        [("g1".to_owned(), json!({"output": {"minutes": 20}}))]
    );
    // Much later the answer may have changed.
    call.hold();
    call.wait(120_001);
    call.on(MachineInput::Voice(VoiceEvent::Reconnected));
    let effects = call.on(tool("h1", "check_order", json!({"orderId": "1"})));
    assert_eq!(told(&effects), ["check_order h1~4"]);
}

#[test]
fn tools_that_the_agent_does_not_have_are_refused() {
    let mut call = Story::talking();
    let agent = call.machine.agent.as_mut().expect("an agent");
    agent.tools.clear();
    for name in ["end_call", "transfer_to_human"] {
        let effects = call.on(tool("t", name, json!({})));
        assert_eq!(answered_with(&effects)[0].1["error"]["code"], "disabled");
    }
    assert!(!call.machine.is_over());
}

#[test]
fn a_person_is_called_once_the_agent_has_said_so() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "transfer_to_human", json!({})));
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    let effects = call.play(&effects);
    let to = "+622150009999".to_owned();
    assert_eq!(orders(&effects), [&Order::Transfer { to }]);
    let effects = call.on(MachineInput::Leg(LegEvent::Transfer(Err(
        "it is busy".to_owned()
    ))));
    assert_eq!(
        answered_with(&effects)[0].1["error"]["message"],
        "it is busy"
    );
    assert_eq!(speaks(&call.on(AUDIO())), 1, "the agent goes on");
}

#[test]
fn a_commanded_transfer_waits_for_the_agents_sentence() {
    let mut call = Story::talking();
    call.on(AUDIO());
    let mut waiting = call.on(command(CommandKind::Transfer { to: person() }));
    // The model is slower than its speech, but does not pause.
    for _ in 0..3 {
        waiting.extend(call.wait(1_400));
        waiting.extend(call.on(AUDIO()));
    }
    assert_eq!(speaks(&waiting), 3, "the sentence is finished");
    assert!(orders(&waiting).is_empty());
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    assert!(orders(&effects).is_empty(), "it is not played yet");
    let effects = call.play(&effects);
    let to = person().as_str().to_owned();
    assert_eq!(orders(&effects), [&Order::Transfer { to }]);
    let effects = call.on(MachineInput::Leg(LegEvent::Transfer(Ok(()))));
    assert!(hung_up(&effects));
    let told = told(&call.wait(300));
    assert_eq!(told[0], "hangup transferred bridge 0 at 4200");
}

/// A call in which `+622150008888` and then `+622150007777` are to be called while the first person is.
fn redirected(mut call: Story) -> Story {
    for to in ["+622150008888", "+622150007777"] {
        let to = to.parse().expect("a number");
        let effects = call.on(command(CommandKind::Transfer { to }));
        assert!(orders(&effects).is_empty(), "the first may still answer");
    }
    call
}

fn failed() -> MachineInput {
    MachineInput::Leg(LegEvent::Transfer(Err("it is busy".to_owned())))
}

#[test]
fn the_person_of_a_later_command_is_called_if_the_first_cannot_be_reached() {
    let mut call = Story::talking();
    let effects = call.on(command(CommandKind::Transfer { to: person() }));
    let effects = call.play(&effects);
    assert!(matches!(orders(&effects)[..], [Order::Transfer { .. }]));
    let mut call = redirected(call);
    let effects = call.on(failed());
    let effects = call.play(&effects);
    let to = "+622150007777".to_owned();
    assert_eq!(orders(&effects), [&Order::Transfer { to }]);
    let is_told = |effect: &MachineEffect| matches!(effect, MachineEffect::Voice(VoiceInput::Text(words)) if words.contains("busy"));
    assert!(call.on(failed()).iter().any(is_told), "nobody is left");
    assert!(!call.machine.is_over());
}

#[test]
fn nobody_else_is_called_if_the_first_person_answers_or_the_time_is_over() {
    let calling = || {
        let mut call = Story::talking();
        let effects = call.on(command(CommandKind::Transfer { to: person() }));
        call.play(&effects);
        redirected(call)
    };
    let effects = calling().on(MachineInput::Leg(LegEvent::Transfer(Ok(()))));
    assert!(hung_up(&effects) && orders(&effects).len() <= 1);
    let mut late = calling();
    let effects = late.wait(150_000);
    assert!(
        !orders(&effects)
            .iter()
            .any(|order| matches!(order, Order::Transfer { .. }))
    );
}

#[test]
fn the_agents_transfer_is_answered_once_with_the_last_attempt() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "transfer_to_human", json!({})));
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.play(&effects);
    let mut call = redirected(call);
    let mut effects = call.on(failed());
    assert!(answered_with(&effects).is_empty());
    effects.extend(call.wait(2_000));
    let effects = call.play(&effects);
    assert!(matches!(orders(&effects)[..], [Order::Transfer { .. }]));
    let effects = call.on(failed());
    assert_eq!(answered_with(&effects).len(), 1);
}

#[test]
fn a_command_during_the_announcement_takes_the_place_of_the_first() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    let effects = call.on(command(CommandKind::Transfer { to: person() }));
    assert!(orders(&effects).is_empty(), "the sentence is played first");
    let call = &mut redirected(call);
    let effects = call.play(&effects);
    let to = "+622150007777".to_owned();
    assert_eq!(orders(&effects), [&Order::Transfer { to }]);
}

#[test]
fn another_provider_takes_over_after_a_transfer_that_failed() {
    let mut call = Story::talking_with(rules_with_fallback());
    call.on(AUDIO());
    call.on(tool("t", "transfer_to_human", json!({})));
    let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    call.play(&effects);
    call.on(MachineInput::Voice(VoiceEvent::Lost("gone".to_owned())));
    let effects = call.on(MachineInput::Leg(LegEvent::Transfer(
        Err("busy".to_owned()),
    )));
    let is_opened = |effect: &MachineEffect| {
        matches!(effect, MachineEffect::OpenVoice(VoiceProvider::Openai, _))
    };
    assert!(effects.iter().any(is_opened), "{effects:?}");
    let is_told = |effect: &MachineEffect| matches!(effect, MachineEffect::Voice(VoiceInput::Text(words)) if words.contains("busy"));
    assert!(effects.iter().any(is_told), "{effects:?}");
}

#[test]
fn a_person_is_called_five_times_at_most() {
    let mut call = Story::talking();
    for _ in 0..tools::TRANSFERS_MAX {
        call.on(AUDIO());
        call.on(tool("t", "transfer_to_human", json!({})));
        let effects = call.on(MachineInput::Voice(VoiceEvent::TurnOver));
        let effects = call.play(&effects);
        assert!(matches!(orders(&effects)[..], [Order::Transfer { .. }]));
        call.on(MachineInput::Leg(LegEvent::Transfer(Err(
            "it is busy".to_owned()
        ))));
    }
    let effects = call.on(tool("t", "transfer_to_human", json!({})));
    let error = &answered_with(&effects)[0].1["error"];
    assert_eq!(error["code"], "too_many");
    // A command of the service has its own limit.
    call.on(AUDIO());
    call.on(MachineInput::Voice(VoiceEvent::TurnOver));
    let effects = call.on(command(CommandKind::Transfer { to: person() }));
    let effects = call.play(&effects);
    assert!(matches!(orders(&effects)[..], [Order::Transfer { .. }]));
}

#[test]
fn keys_reach_the_model_as_text_and_stand_in_the_transcript() {
    let mut call = Story::talking();
    for key in ['4', '2', '7'] {
        assert!(call.on(MachineInput::Leg(LegEvent::Key(key))).is_empty());
    }
    let effects = call.on(MachineInput::Leg(LegEvent::Key('#')));
    assert_eq!(
        tells(&effects),
        [&VoiceInput::Keys("the caller pressed 4 2 7 #".to_owned())]
    );
    call.on(MachineInput::Leg(LegEvent::Key('9')));
    assert!(call.wait(1_499).is_empty());
    let effects = call.wait(1);
    assert_eq!(
        tells(&effects),
        [&VoiceInput::Keys("the caller pressed 9".to_owned())]
    );
    call.on(MachineInput::Leg(LegEvent::HungUp));
    assert_eq!(
        told(&call.wait(300))[1],
        "transcript caller: the caller pressed 4 2 7 #\ncaller: the caller pressed 9"
    );
}

#[test]
fn without_a_model_the_caller_is_asked_for_patience_and_then_let_go() {
    let mut call = Story::new();
    call.on(taken());
    call.on(MachineInput::Leg(LegEvent::Answered));
    assert!(call.wait(1_399).is_empty());
    let effects = call.wait(1);
    assert_eq!(speaks(&effects), 1);
    let stall = Stall::Filled;
    let provider = VoiceProvider::Gemini;
    assert!(effects.contains(&MachineEffect::Stall { provider, stall }));
    assert!(speaks(&call.wait(6_599)) > 1, "tones");
    let effects = call.wait(1);
    assert_eq!(
        orders(&effects),
        [&Order::Flush],
        "the sentence comes in place of the rest"
    );
    assert!(effects.contains(&MachineEffect::CloseVoice));
    let effects = call.on(MachineInput::Leg(LegEvent::Flushed { total_played_ms: 0 }));
    assert_eq!(speaks(&effects), 1);
    let effects = call.play(&effects);
    assert!(hung_up(&effects));
    assert_eq!(
        told(&effects)[0],
        "failed ai_error: no model for 8 s, 0 IDR"
    );
    let transcript = &told(&effects)[1];
    assert!(transcript.contains("Sorry, we have to end"), "{transcript}");
}

#[test]
fn a_caller_who_leaves_in_the_bridges_sentence_has_not_heard_all_of_it() {
    let mut call = Story::talking();
    call.on(MachineInput::Voice(VoiceEvent::Away));
    call.wait(8_000);
    call.on(MachineInput::Leg(LegEvent::Flushed { total_played_ms: 0 }));
    call.wait(1_000);
    let told = told(&call.on(MachineInput::Leg(LegEvent::HungUp)));
    let transcript = told.last().expect("a transcript");
    assert!(transcript.contains("agent: Sorry,"), "{told:?}");
    assert!(!transcript.contains("call again later"), "{told:?}");
}

#[test]
fn a_model_that_comes_back_in_time_goes_on() {
    let mut call = Story::talking();
    call.on(MachineInput::Voice(VoiceEvent::Away));
    // No silence is longer than 1.5 s, and nothing is queued up meanwhile.
    let (mut heard_until, mut sounds) = (call.ms, 0);
    let until = call.ms + 7_999;
    while call.ms < until {
        let effects = call.wait(1);
        let length: usize = effects.iter().map(samples_of).sum();
        if length > 0 {
            let silence = call.ms.checked_sub(heard_until);
            assert!(
                silence.is_some_and(|silence| silence <= 1_500),
                "{silence:?}"
            );
            heard_until = call.ms + length as u64 / 24;
            sounds += 1;
        }
    }
    assert!(sounds >= 3 && call.ms < heard_until + 1_500, "{sounds}");
    call.on(MachineInput::Voice(VoiceEvent::Reconnected));
    call.hold();
    assert!(call.wait(60_000).is_empty());
    assert_eq!(orders(&call.on(MachineInput::VoiceGone)), [&Order::Flush]);
    let effects = call.on(MachineInput::Leg(LegEvent::Flushed { total_played_ms: 0 }));
    assert_eq!(speaks(&effects), 1);
    assert_eq!(
        told(&call.play(&effects))[0],
        "failed ai_error: the voice is gone without a word, 0 IDR"
    );
}

#[test]
fn talk_goes_on_without_the_service_for_as_long_as_it_waits() {
    let mut call = Story::talking();
    call.hold();
    call.on(MachineInput::ServiceStands(false));
    call.wait(20_000);
    call.on(MachineInput::ServiceStands(true));
    assert!(call.wait(60_000).is_empty());
    call.on(MachineInput::ServiceStands(false));
    assert!(call.wait(29_999).is_empty());
    let effects = call.wait(1);
    assert_eq!(speaks(&effects), 1);
    call.play(&effects);
    assert_eq!(
        told(&call.wait(300))[0],
        "failed bridge_error: the service was away for 30 s, 0 IDR"
    );
}

#[test]
fn silence_of_the_service_counts_from_its_beginning() {
    let mut call = Story::talking();
    call.hold();
    call.wait(10_000);
    let since_ms = call.ms - 4_000;
    call.on(MachineInput::ServiceAway { since_ms });
    assert!(call.wait(25_999).is_empty());
    assert_eq!(speaks(&call.wait(1)), 1);
}

#[test]
fn when_the_bridge_stops_the_caller_is_told() {
    let mut call = Story::talking();
    let effects = call.on(MachineInput::Stop { within_ms: 20_000 });
    assert_eq!(speaks(&effects), 1);
    assert!(hung_up(&call.play(&effects)));
    let mut ringing = Story::new();
    assert!(
        matches!(orders(&ringing.on(MachineInput::Stop { within_ms: 20_000 }))[..], [Order::Ring, Order::Reject(refusal)] if refusal.status == 503)
    );
}

#[test]
fn a_bridge_that_stops_soon_cuts_its_sentence() {
    let mut call = Story::talking();
    call.on(said(Speaker::Agent, "Hello"));
    call.on(said(Speaker::Caller, "Hi"));
    call.on(MachineInput::Stop { within_ms: 1_000 });
    assert!(!hung_up(&call.wait(999)));
    let effects = call.wait(1);
    assert!(hung_up(&effects));
    assert_eq!(
        told(&effects)[0],
        "hangup normal bridge 0 at 1000",
        "there is no time to sum up"
    );
    let mut leaving = Story::talking();
    leaving.on(AUDIO());
    leaving.on(tool("t", "end_call", json!({})));
    leaving.on(MachineInput::Stop { within_ms: 2_000 });
    assert!(hung_up(&leaving.wait(2_000)));
}

/// A call whose caller waits for a person, after a few words.
fn connecting() -> Story {
    let mut call = Story::talking();
    call.on(said(Speaker::Agent, "Hello"));
    call.on(said(Speaker::Caller, "Hi"));
    let effects = call.on(command(CommandKind::Transfer { to: person() }));
    let effects = call.play(&effects);
    assert!(matches!(orders(&effects)[..], [Order::Transfer { .. }]));
    call
}

#[test]
fn a_transfer_is_given_up_when_the_bridge_stops() {
    let ends = |call: &mut Story, effects: &[MachineEffect]| {
        assert_eq!(speaks(effects), 1, "the caller is told");
        let effects = call.play(effects);
        assert!(hung_up(&effects));
        let told = told(&call.wait(3_000));
        assert_eq!(told[0], "hangup normal bridge 0 at 0");
        assert!(told[1].starts_with("transcript agent: Hello"), "{told:?}");
        assert!(call.machine.is_over());
    };
    // The person's phone rings.
    let mut call = connecting();
    let effects = call.on(MachineInput::Stop { within_ms: 10_000 });
    assert_eq!(orders(&effects), [&Order::CancelTransfer]);
    ends(&mut call, &effects);
    // The person refuses at this very moment.
    let mut call = connecting();
    let effects = call.on(MachineInput::Stop { within_ms: 10_000 });
    let busy = MachineInput::Leg(LegEvent::Transfer(Err("it is busy".to_owned())));
    assert!(call.on(busy).is_empty());
    ends(&mut call, &effects);
    // The agent is about to announce the transfer.
    let mut call = Story::talking();
    call.on(said(Speaker::Agent, "Hello"));
    call.on(tool("t", "transfer_to_human", json!({})));
    let effects = call.on(MachineInput::Stop { within_ms: 10_000 });
    assert!(orders(&effects).is_empty());
    ends(&mut call, &effects);
    // The call ends in time however little is left.
    let mut call = connecting();
    call.on(MachineInput::Stop { within_ms: 300 });
    let effects = call.wait(300);
    assert!(hung_up(&effects) && call.machine.is_over());
    assert_eq!(told(&effects).len(), 2, "the transcript, too");
}

#[test]
fn a_person_who_answers_all_the_same_has_the_caller() {
    let mut call = connecting();
    let effects = call.on(MachineInput::Stop { within_ms: 10_000 });
    assert_eq!(speaks(&effects), 1);
    assert!(hung_up(
        &call.on(MachineInput::Leg(LegEvent::Transfer(Ok(()))))
    ));
    let told = told(&call.wait(3_000));
    assert_eq!(told[0], "hangup transferred bridge 0 at 0");
}

#[test]
fn nobody_is_called_once_the_bridge_stops() {
    let mut call = Story::talking();
    call.on(AUDIO());
    call.on(tool("t", "end_call", json!({})));
    call.on(MachineInput::Stop { within_ms: 5_000 });
    let transfer = CommandKind::Transfer { to: person() };
    assert!(call.on(command(transfer)).is_empty());
    let effects = call.wait(5_000);
    assert!(hung_up(&effects) && call.machine.is_over());
}

#[test]
fn a_person_who_does_not_answer_in_time_is_called_no_more() {
    let mut call = connecting();
    assert!(call.wait(139_999).is_empty());
    let effects = call.wait(1);
    assert_eq!(orders(&effects), [&Order::CancelTransfer]);
    let [VoiceInput::Text(words)] = tells(&effects)[..] else {
        panic!("the agent is told: {effects:?}");
    };
    assert!(words.contains("did not answer in time"), "{words}");
}

#[test]
fn lost_media_a_broken_leg_and_a_service_that_let_go_end_the_call() {
    let mut call = Story::talking();
    call.on(usage(20, 0));
    let effects = call.on(MachineInput::Leg(LegEvent::MediaLost));
    assert!(hung_up(&effects));
    let fault = MachineEffect::Fault("no media came for 15 s".to_owned());
    assert!(effects.contains(&fault), "operators are told in the log");
    let expected = ["failed media_lost: no media came for 15 s, 20 IDR"];
    assert_eq!(told(&call.wait(300)), expected);
    let mut call = Story::talking();
    call.on(usage(20, 0));
    call.on(MachineInput::LegGone);
    let told_last = told(&call.wait(300));
    assert!(
        told_last[0].starts_with("failed bridge_error: "),
        "{told_last:?}"
    );
    assert!(told_last[0].ends_with(", 20 IDR"), "{told_last:?}");
    // Without prices it has no cost.
    let mut call = Story::talking();
    call.machine.rules.voices[0].1 = None;
    assert_eq!(
        told(&call.on(MachineInput::Leg(LegEvent::MediaLost))),
        ["failed media_lost: no media came for 15 s"]
    );
    let mut call = Story::talking();
    assert!(hung_up(&call.on(MachineInput::Service(ServiceEvent::Over))));
    let mut call = Story::talking();
    assert!(hung_up(&call.on(MachineInput::Service(declined(
        MessageType::Answered,
        None,
        "invalid_transition"
    )))));
    let mut silent = Story::new();
    silent.on(taken());
    assert_eq!(
        told(&silent.wait(40_000)),
        ["failed bridge_error: the phone did not acknowledge the answer, 0 IDR"]
    );
}

#[test]
fn a_call_on_hold_is_silent_and_goes_on() {
    let mut call = Story::talking();
    call.on(AUDIO());
    let effects = call.on(MachineInput::Leg(LegEvent::Held(true)));
    assert_eq!(orders(&effects), [&Order::Pause]);
    assert!(!effects.contains(&MachineEffect::SpeechPaused));
    assert!(
        call.on(MachineInput::Leg(LegEvent::VoiceStarted))
            .is_empty()
    );
    assert!(call.wait(60_000).is_empty());
    assert_eq!(
        orders(&call.on(MachineInput::Leg(LegEvent::Held(false)))),
        [&Order::Continue]
    );
}

fn any_input() -> impl Strategy<Value = MachineInput> {
    let texts = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("end_call".to_owned()),
        Just("transfer_to_human".to_owned())
    ];
    let texts2 = texts.clone();
    let leg = prop_oneof![
        8 => Just(LegEvent::Answered), 1 => Just(LegEvent::Cancelled), 4 => Just(LegEvent::Audio(vec![0; 4])),
        4 => Just(LegEvent::VoiceStarted), 2 => Just(LegEvent::VoiceEnded), 4 => Just(LegEvent::Key('5')),
        4 => (0_u64..6).prop_map(LegEvent::Played), 4 => Just(LegEvent::Flushed { total_played_ms: 1 }),
        2 => any::<bool>().prop_map(LegEvent::Held), 2 => any::<bool>().prop_map(|ok| LegEvent::Transfer(if ok { Ok(()) } else { Err("x".to_owned()) })),
        2 => Just(LegEvent::Joined { to: person().as_str().to_owned() }), 1 => Just(LegEvent::Parted),
        1 => Just(LegEvent::HungUp), 1 => Just(LegEvent::MediaLost), 1 => Just(LegEvent::Failed("x".to_owned())),
    ];
    let voice = prop_oneof![
        4 => Just(VoiceEvent::Ready), 6 => Just(VoiceEvent::Audio(vec![0; 4])), 3 => Just(VoiceEvent::Interrupted),
        6 => (texts.clone(), texts2).prop_map(|(id, name)| VoiceEvent::Tool { id, name, arguments: Map::new() }),
        2 => texts.clone().prop_map(|id| VoiceEvent::ToolCancelled { ids: vec![id] }),
        3 => texts.clone().prop_map(VoiceEvent::CallerSaid), 3 => texts.clone().prop_map(VoiceEvent::AgentSaid),
        3 => Just(VoiceEvent::TurnOver), 2 => any::<u64>().prop_map(|audio_in| VoiceEvent::Usage(Usage { audio_in, ..Usage::default() })),
        1 => texts.clone().prop_map(VoiceEvent::Summary), 2 => Just(VoiceEvent::Away), 2 => Just(VoiceEvent::Reconnected), 1 => texts.clone().prop_map(VoiceEvent::Lost),
    ];
    let told = prop_oneof![
        1 => Just(replied(ServiceReply::Refused { reason: HangupReason::NoAgent })),
        8 => Just(replied(ServiceReply::Taken { call: call_id(), called: called(), agent: agent(), callee: CalleeNames::default() })),
        4 => texts.clone().prop_map(|invocation_id| replied(ServiceReply::Outcome { invocation_id, outcome: InvocationOutcome::Ok { result: Map::new() } })),
        2 => texts.prop_map(|invocation_id| declined(MessageType::Function, Some(&invocation_id), "busy")),
        1 => Just(declined(MessageType::Answered, None, "x")),
        1 => Just(declined(MessageType::Hangup, None, "x")),
        1 => Just(ServiceEvent::Command(CommandKind::Hangup { reason: HangupReason::Requested })),
        2 => Just(ServiceEvent::Command(CommandKind::Warn { reason: HangupReason::MaxDuration, seconds_left: 3 })),
        2 => Just(ServiceEvent::Command(CommandKind::Transfer { to: person() })),
        1 => Just(ServiceEvent::Over),
    ];
    prop_oneof![
        10 => leg.prop_map(MachineInput::Leg), 12 => voice.prop_map(MachineInput::Voice), 8 => told.prop_map(MachineInput::Service),
        2 => any::<bool>().prop_map(MachineInput::ServiceStands), 6 => Just(MachineInput::Time),
        1 => (0_u64..9_000).prop_map(|within_ms| MachineInput::Stop { within_ms }), 1 => Just(MachineInput::LegGone), 1 => Just(MachineInput::VoiceGone),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Whatever happens in whatever order: the call ends once, at the service and at the phone, and nothing follows.
    #[test]
    fn every_call_ends_once(inputs in proptest::collection::vec((any_input(), 0_u64..4_000), 0..80)) {
        let mut call = Story::new();
        let mut all = std::mem::take(&mut call.effects);
        for (input, wait) in inputs {
            all.extend(call.wait(wait));
            let was_over = call.machine.is_over();
            let effects = call.on(input);
            prop_assert!(!was_over || effects.is_empty());
            all.extend(effects);
        }
        // The service is gone for good, the voice is silent, and nothing is played any more.
        call.on(MachineInput::ServiceStands(false));
        let mut steps = 0;
        while let Some(due) = call.machine.due() {
            steps += 1;
            prop_assert!(steps < 100, "time does not go on");
            call.ms = call.ms.max(due);
            all.extend(call.on(MachineInput::Time));
        }
        prop_assert!(call.machine.is_over());
        let is_final = |effect: &&MachineEffect| matches!(effect, MachineEffect::Service(CallReport::Hangup { .. } | CallReport::Failed { .. }, _));
        let is_taken = |effect: &MachineEffect| matches!(effect, MachineEffect::Leg(Order::Answer { .. }));
        let finals = all.iter().filter(is_final).count();
        prop_assert!(finals <= 1);
        prop_assert!(finals == 1 || !all.iter().any(is_taken), "a call that was taken ends in the books");
        let ends = all.iter().filter(|effect| matches!(effect, MachineEffect::Leg(Order::Hangup(_) | Order::Reject(_)))).count();
        prop_assert!(ends <= 1);
        let count = |of: fn(&CallReport) -> bool| all.iter().filter(|effect| matches!(effect, MachineEffect::Service(message, _) if of(message))).count();
        let answers = count(|message| matches!(message, CallReport::Answered));
        let transcripts = count(|message| matches!(message, CallReport::Transcript { .. }));
        prop_assert!(answers <= 1 && transcripts <= 1);
        let last = all.iter().position(|effect| is_final(&effect));
        let joined: Vec<usize> = all.iter().enumerate().filter(|(_, effect)| matches!(effect, MachineEffect::Service(CallReport::Transferred { .. }, _))).map(|(at, _)| at).collect();
        prop_assert!(joined.len() <= 1 && joined.iter().all(|at| Some(*at) < last), "joined once, before the end");
    }
}
