//! Metrics of the bridge in this process.

use dikala_telephony::{bridge::BridgeStatistics, call, sip, times};

use super::{
    COUNTER, GAUGE, TIMES,
    exposition::{MetricFamily, MetricKind, MetricUnit},
    whole,
};
use crate::telephony::distribution;

pub(super) fn metrics(counted: &BridgeStatistics) -> Vec<MetricFamily> {
    let (sip, calls) = (&counted.sip, &counted.calls);
    let mut all = over_sip(sip);
    all.push(media(sip));
    all.push(interruptions(calls));
    all.push(refused(sip));
    for (name, help, count) in [
        (
            "dikala_telephony_ticks_total",
            "Packets of media that were due to callers",
            sip.ticks,
        ),
        (
            "dikala_telephony_late_ticks_total",
            "Packets of media that went out more than 20 ms late",
            sip.ticks_late,
        ),
        (
            "dikala_telephony_dropped_messages_total",
            "Messages of strangers that were too many to be read",
            sip.strangers_dropped,
        ),
        (
            "dikala_telephony_model_reconnections_total",
            "Connections to the model that were lost in a call and made again",
            calls.reconnections,
        ),
        (
            "dikala_telephony_lost_voices_total",
            "Calls that lost their voice for good",
            calls.voices_lost,
        ),
        (
            "dikala_telephony_cost_idr_total",
            "What the model has cost, in rupiah",
            calls.cost_idr,
        ),
    ] {
        all.push(one(COUNTER, name, help, count));
    }
    all
}

fn over_sip(sip: &sip::EdgeStatistics) -> Vec<MetricFamily> {
    let mut outcomes = MetricFamily::new(
        COUNTER,
        "dikala_telephony_calls_total",
        &["leg", "outcome"],
        "Calls over SIP, from callers and to persons, by what became of the ringing",
    );
    for (leg, of) in [("caller", &sip.callers), ("person", &sip.persons)] {
        for (outcome, count) in [
            ("answered", of.answered),
            ("refused", of.refused),
            ("cancelled", of.cancelled),
            ("failed", of.failed),
        ] {
            outcomes.number(&[leg, outcome], whole(count));
        }
    }
    let mut now = MetricFamily::new(
        GAUGE,
        "dikala_telephony_calls_active",
        &["leg"],
        "Calls over SIP now: of callers, and to persons whom they were joined to",
    );
    now.number(&["caller"], whole(sip.calls as u64));
    now.number(&["person"], whole(sip.joined as u64));
    vec![
        now,
        outcomes,
        times(
            "dikala_telephony_answer_seconds",
            "From INVITE to the answer",
            sip.answer,
        ),
        times(
            "dikala_telephony_barge_in_seconds",
            "From the caller's voice, 96 ms before it is noticed, until what the agent was saying is silent",
            sip.barge_in,
        ),
        one(
            GAUGE,
            "dikala_telephony_registered_trunks",
            "Trunks at which this bridge is registered",
            sip.registered_trunks as u64,
        ),
    ]
}

fn media(sip: &sip::EdgeStatistics) -> MetricFamily {
    let mut packets = MetricFamily::new(
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
    packets
}

fn interruptions(calls: &call::CallStatistics) -> MetricFamily {
    let mut interruptions = MetricFamily::new(
        COUNTER,
        "dikala_telephony_interruptions_total",
        &["by"],
        "The agent fell silent: because the caller spoke, and because the model took that for an interruption",
    );
    interruptions.number(&["caller"], whole(calls.pauses));
    interruptions.number(&["model"], whole(calls.interruptions));
    interruptions
}

fn refused(sip: &sip::EdgeStatistics) -> MetricFamily {
    let mut refused = MetricFamily::new(
        COUNTER,
        "dikala_telephony_refused_total",
        &["trunk", "reason"],
        "Calls, passwords, registrations and second legs that were refused, by trunk (empty where none let the caller in) and reason",
    );
    for of in &sip.refused {
        refused.number(&[&of.trunk, of.reason], whole(of.count));
    }
    refused
}

fn times(name: &'static str, help: &'static str, reading: times::DurationCounts) -> MetricFamily {
    let mut metric = MetricFamily::new(TIMES, name, &[], help);
    metric.distribution(&[], distribution(reading));
    metric
}

fn one(
    kind: (MetricKind, MetricUnit),
    name: &'static str,
    help: &'static str,
    value: u64,
) -> MetricFamily {
    let mut metric = MetricFamily::new(kind, name, &[], help);
    metric.number(&[], whole(value));
    metric
}
