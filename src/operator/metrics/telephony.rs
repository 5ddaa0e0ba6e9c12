//! Metrics of the bridge in this process.

use dikala_sip::{
    quality::{DirectionStatistics, QualityStatistics},
    statistics::{EdgeStatistics, ValueCounts},
};
use dikala_telephony::{bridge::BridgeStatistics, call};

use super::{
    COUNTER, GAUGE, SHARES, TIMES,
    exposition::{MetricFamily, MetricKind, MetricUnit},
    whole,
};
use crate::telephony::distribution;

pub(super) fn metrics(counted: &BridgeStatistics) -> Vec<MetricFamily> {
    let (sip, calls) = (&counted.sip, &counted.calls);
    let mut all = over_sip(sip);
    all.push(media(sip));
    all.extend(quality(&sip.quality));
    all.push(interruptions(calls));
    all.extend(voices(calls));
    all.push(refused(sip));
    for (name, help, count) in [
        (
            "dikala_telephony_ticks_total",
            "Media packets due to callers",
            sip.ticks,
        ),
        (
            "dikala_telephony_late_ticks_total",
            "Media packets sent more than 20 ms late",
            sip.ticks_late,
        ),
        (
            "dikala_telephony_dropped_messages_total",
            "Strangers' requests over UDP that the rate limit dropped",
            sip.strangers_dropped,
        ),
        (
            "dikala_telephony_model_reconnections_total",
            "Connections to the model that were lost in a call and reopened",
            calls.reconnections,
        ),
        (
            "dikala_telephony_lost_voices_total",
            "Calls that lost their voice for good",
            calls.voices_lost,
        ),
        (
            "dikala_telephony_cost_idr_total",
            "Cost of the model, in rupiah",
            calls.cost_idr,
        ),
    ] {
        all.push(one(COUNTER, name, help, count));
    }
    all
}

fn over_sip(sip: &EdgeStatistics) -> Vec<MetricFamily> {
    let mut outcomes = MetricFamily::new(
        COUNTER,
        "dikala_telephony_calls_total",
        &["leg", "outcome"],
        "Calls over SIP, from callers and to persons, by the outcome of the ringing",
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
        &["state"],
        "Callers over SIP now: with an agent, ringing included, and joined to a person",
    );
    let with_agent = sip.calls.saturating_sub(sip.joined);
    now.number(&["with_agent"], whole(with_agent as u64));
    now.number(&["joined"], whole(sip.joined as u64));
    vec![
        now,
        outcomes,
        times(
            "dikala_telephony_answer_seconds",
            "From INVITE to the answer",
            &sip.answer,
        ),
        times(
            "dikala_telephony_barge_in_seconds",
            "From a caller's voice, 96 ms before its detection, until the agent is silent",
            &sip.barge_in,
        ),
        one(
            GAUGE,
            "dikala_telephony_registered_trunks",
            "Trunks with which this bridge is registered",
            sip.registered_trunks as u64,
        ),
    ]
}

fn media(sip: &EdgeStatistics) -> MetricFamily {
    let mut packets = MetricFamily::new(
        COUNTER,
        "dikala_telephony_packets_total",
        &["state"],
        "Media packets from callers, of finished calls",
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

/// The quality of legs that have ended.
fn quality(of: &QualityStatistics) -> Vec<MetricFamily> {
    let both = |kind, name, help, read: fn(&DirectionStatistics) -> &ValueCounts| {
        let mut metric = MetricFamily::new(kind, name, &["direction"], help);
        for (direction, of) in [("received", &of.received), ("sent", &of.sent)] {
            metric.distribution(&[direction], distribution(read(of)));
        }
        metric
    };
    vec![
        both(
            SHARES,
            "dikala_telephony_mos",
            "Estimated mean opinion score of finished legs, by direction",
            |of| &of.mos,
        ),
        both(
            SHARES,
            "dikala_telephony_loss_ratio",
            "Lost packets among all of finished legs, by direction",
            |of| &of.loss,
        ),
        both(
            TIMES,
            "dikala_telephony_jitter_seconds",
            "95th percentile of the jitter of finished legs, by direction",
            |of| &of.jitter,
        ),
        times(
            "dikala_telephony_round_trip_seconds",
            "Last round trip of finished legs whose other side sends reports",
            &of.round_trip,
        ),
        times(
            "dikala_telephony_concealed_seconds",
            "Audio that replaced lost packets in finished legs",
            &of.concealed,
        ),
    ]
}

fn voices(calls: &call::CallStatistics) -> [MetricFamily; 3] {
    let provider = &["provider"];
    let mut turns = MetricFamily::new(
        TIMES,
        "dikala_voice_turn_seconds",
        provider,
        "From the end of a caller's voice to the agent's first sound",
    );
    let mut stalls = MetricFamily::new(
        COUNTER,
        "dikala_voice_stalls_total",
        &["provider", "step"],
        "What was done for callers who waited for the agent",
    );
    let mut failovers = MetricFamily::new(
        COUNTER,
        "dikala_voice_failovers_total",
        provider,
        "Times that this provider took over from another in the middle of a call",
    );
    for voice in &calls.voices {
        let name = voice.provider.as_str();
        turns.distribution(&[name], distribution(&voice.turns));
        for (step, count) in voice.stalls {
            stalls.number(&[name, step], whole(count));
        }
        failovers.number(&[name], whole(voice.failovers));
    }
    [turns, stalls, failovers]
}

fn interruptions(calls: &call::CallStatistics) -> MetricFamily {
    let mut interruptions = MetricFamily::new(
        COUNTER,
        "dikala_telephony_interruptions_total",
        &["by"],
        "Times that the agent paused because the caller spoke, or that its speech was cut because the model took that for an interruption",
    );
    interruptions.number(&["caller"], whole(calls.pauses));
    interruptions.number(&["model"], whole(calls.interruptions));
    interruptions
}

fn refused(sip: &EdgeStatistics) -> MetricFamily {
    let mut refused = MetricFamily::new(
        COUNTER,
        "dikala_telephony_refused_total",
        &["trunk", "reason"],
        "Refused calls and passwords, failed registrations and transfers, by trunk (empty if no trunk admitted the caller) and reason",
    );
    for of in &sip.refused {
        refused.number(&[&of.trunk, of.reason], whole(of.count));
    }
    refused
}

fn times(name: &'static str, help: &'static str, of: &ValueCounts) -> MetricFamily {
    let mut metric = MetricFamily::new(TIMES, name, &[], help);
    metric.distribution(&[], distribution(of));
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
