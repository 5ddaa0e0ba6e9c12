//! The order of the timeline.

use dikala_entities::{BridgeId, ChannelKind, EventId};

use super::{
    super::all_tenants::{CallEventSummary, Hold, OperatorCall},
    *,
};

const RANG: Millis = Millis::from_i64(1_768_447_800_000);

const fn after(ms: i64) -> Millis {
    RANG.plus_ms(ms)
}

/// A call that was answered after 1.2 s and dropped after 5.
fn call() -> OperatorCall {
    OperatorCall {
        id: CallId::new(RANG),
        tenant_id: TenantId::new(RANG),
        bridge_id: BridgeId::new(RANG),
        bridge_call_id: "1@x".to_owned(),
        phone_number_id: None,
        agent_id: None,
        agent_version: None,
        caller_number: "anonymous".parse().expect("a caller"),
        callee_number: "+6281234567890".parse().expect("a number"),
        channel: ChannelKind::Phone,
        status: CallStatus::Dropped,
        started_at: RANG,
        answered_at: Some(after(1_200)),
        joined_at: None,
        ended_at: Some(after(5_000)),
        duration_seconds: Some(5),
        talk_time_seconds: Some(3),
        hangup_reason: Some(HangupReason::AiError),
        hangup_initiator: Some(HangupInitiator::Bridge),
        failure_detail: None,
        voice_provider: None,
        turn_latency_ms: None,
        stalls: None,
        interruptions: None,
        last_sign_at: after(5_000),
        owner: String::new(),
    }
}

fn found() -> CallDetail {
    let event = |kind, at: i64| CallEventSummary {
        id: EventId::first_at(after(at)),
        event: kind,
        timestamp: after(at - 7),
    };
    let (sent, webhook) = (DeliveryId::new(after(5_008)), WebhookId::new(RANG));
    let waiting = CallDeliveryStatus {
        id: sent,
        webhook_id: webhook,
        event_id: EventId::new(RANG),
        event: EventKind::CallEnded,
        status: DeliveryStatus::Pending,
        attempt_count: 1,
        next_attempt_at: Some(after(65_000)),
        created_at: after(5_008),
        completed_at: None,
    };
    CallDetail {
        call: call(),
        holds: vec![Hold {
            held_minutes: 0,
            used_minutes: 1,
            grants: 2,
            last: false,
            refusal: None,
            created_at: RANG,
            settled_at: Some(after(5_007)),
        }],
        events: vec![
            event(EventKind::CallStarted, 7),
            event(EventKind::CallEnded, 5_007),
        ],
        deliveries: vec![waiting],
        media: None,
    }
}

fn names(timeline: &CallTimeline) -> Vec<(i64, &'static str)> {
    let name = |what: &StepKind| match what {
        StepKind::Sip(_) => "sip",
        StepKind::Message { .. } => "message",
        StepKind::Rang => "rang",
        StepKind::Answered => "answered",
        StepKind::Joined => "joined",
        StepKind::Ended { .. } => "ended",
        StepKind::Asked { .. } => "asked",
        StepKind::Reserved => "reserved",
        StepKind::Refused(_) => "refused",
        StepKind::Settled { .. } => "settled",
        StepKind::Function(_) => "function",
        StepKind::Event { .. } => "event",
        StepKind::Attempt(_) => "attempt",
        StepKind::Due { .. } => "due",
    };
    let steps = timeline.steps.iter();
    steps
        .map(|step| (step.at.since(timeline.rang_at), name(&step.what)))
        .collect()
}

#[test]
fn everything_stands_where_it_happened() {
    let found = found();
    let records = TimelineRecords {
        messages: vec![
            MessageRecord {
                at: after(-1),
                kind: MessageType::Incoming,
                took: Duration::from_millis(8),
                refusal: None,
            },
            MessageRecord {
                at: after(5_000),
                kind: MessageType::Failed,
                took: Duration::from_millis(8),
                refusal: None,
            },
        ],
        // It took 300 ms until its outcome was written.
        functions: vec![CalledFunctionStep {
            name: "check_stock".to_owned(),
            function_id: None,
            fault: None,
            duration_ms: 300,
            created_at: after(2_300),
        }],
        attempts: vec![DeliveryAttempt {
            delivery_id: found.deliveries[0].id,
            number: 1,
            started_at: after(5_009),
            duration_ms: 84,
            status_code: Some(503),
            error: None,
        }],
        balance: Some(41),
        ..TimelineRecords::default()
    };
    let timeline = ordered(&found, records);
    let expected = [
        (-1, "message"),
        (0, "rang"),
        (0, "reserved"),
        (7, "event"),
        (1_200, "answered"),
        (2_000, "function"),
        // A cause stands before its effect in the same millisecond.
        (5_000, "message"),
        (5_000, "ended"),
        (5_007, "settled"),
        (5_007, "event"),
        (5_009, "attempt"),
        (65_000, "due"),
    ];
    assert_eq!(names(&timeline), expected);
    assert!(timeline.has_messages && !timeline.has_sip);
    let written = timeline.steps.iter().find_map(|step| match step.what {
        StepKind::Event { after_ms, .. } => Some(after_ms),
        _ => None,
    });
    assert_eq!(written, Some(7));
}

#[test]
fn a_refused_call_books_nothing() {
    let mut found = found();
    found.holds[0].refusal = Some("insufficient_credits".to_owned());
    (found.events, found.deliveries) = (Vec::new(), Vec::new());
    found.call.answered_at = None;
    let timeline = ordered(&found, TimelineRecords::default());
    let names: Vec<&str> = names(&timeline).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["rang", "refused", "ended"]);
}
