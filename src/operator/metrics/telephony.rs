//! What the bridge inside counts.

use dikala_telephony::bridge::Statistics;

use super::{
    COUNTER, GAUGE,
    exposition::{Kind, Metric, Unit},
    whole,
};

pub(super) fn metrics(counted: &Statistics) -> Vec<Metric> {
    let (sip, calls) = (&counted.sip, &counted.calls);
    let mut ended = Metric::new(
        COUNTER,
        "dikala_telephony_calls_total",
        &["outcome"],
        "Calls that came in over SIP, by what became of the ringing",
    );
    for (outcome, count) in [
        ("answered", sip.answered),
        ("refused", sip.refused),
        ("cancelled", sip.cancelled),
        ("failed", sip.failed),
    ] {
        ended.number(&[outcome], whole(count));
    }
    let mut packets = Metric::new(
        COUNTER,
        "dikala_telephony_packets_total",
        &["state"],
        "Packets of media from callers, of calls that are over",
    );
    for (state, count) in [
        ("received", sip.packets),
        ("lost", sip.packets_lost),
        ("late", sip.packets_late),
    ] {
        packets.number(&[state], whole(count));
    }
    let mut interruptions = Metric::new(
        COUNTER,
        "dikala_telephony_interruptions_total",
        &["by"],
        "The agent fell silent: because the caller spoke, and because the model took that for an interruption",
    );
    interruptions.number(&["caller"], whole(calls.pauses));
    interruptions.number(&["model"], whole(calls.interruptions));
    vec![
        one(
            GAUGE,
            "dikala_telephony_calls",
            "Calls over SIP now",
            sip.calls as u64,
        ),
        ended,
        one(
            (Kind::Counter, Unit::Seconds),
            "dikala_telephony_answer_seconds_total",
            "From INVITE to the answer, added up over the answered calls",
            sip.answer_ms.saturating_mul(1_000),
        ),
        one(
            GAUGE,
            "dikala_telephony_registered_trunks",
            "Trunks at which this bridge is registered",
            sip.registered_trunks as u64,
        ),
        packets,
        one(
            COUNTER,
            "dikala_telephony_ticks_total",
            "Packets of media that were due to callers",
            sip.ticks,
        ),
        one(
            COUNTER,
            "dikala_telephony_late_ticks_total",
            "Packets of media that went out more than 20 ms late",
            sip.ticks_late,
        ),
        one(
            COUNTER,
            "dikala_telephony_dropped_messages_total",
            "Messages of strangers that were too many to be read",
            sip.strangers_dropped,
        ),
        interruptions,
        one(
            COUNTER,
            "dikala_telephony_model_reconnections_total",
            "Connections to the model that were lost in a call and made again",
            calls.reconnections,
        ),
        one(
            COUNTER,
            "dikala_telephony_lost_voices_total",
            "Calls that lost their voice for good",
            calls.voices_lost,
        ),
        one(
            COUNTER,
            "dikala_telephony_cost_idr_total",
            "What the model has cost, in rupiah",
            calls.cost_idr,
        ),
    ]
}

fn one(kind: (Kind, Unit), name: &'static str, help: &'static str, value: u64) -> Metric {
    let mut metric = Metric::new(kind, name, &[], help);
    metric.number(&[], whole(value));
    metric
}
