//! Tests of the problems that a sample leads to.

use dikala_entities::{Millis, TenantId, WebhookId};
use rstest::rstest;

use super::*;
use crate::operations::webhooks::backlog::DUE_MAX;
use crate::overview::{
    counters::{FigureCounters, tests::counters},
    ring::SampleRing,
    sample::{ActorSample, tests::sample},
    trouble::{
        DiskSpace, HangingWebhook, RefusedTenant, ShortTenant, TroubledWebhook, WebhookBacklog,
        WebhookTrouble,
    },
};

fn tenant() -> TenantId {
    "ten_01k9zv3m8rj2q4w6y8a0c2e4g6".parse().expect("an id")
}

fn webhook() -> WebhookId {
    "wh_01k9zv3m8rj2q4w6y8a0c2e4g6".parse().expect("an id")
}

fn actor(name: &'static str, waiting: i64) -> ActorSample {
    ActorSample {
        name,
        waiting,
        capacity: 4_096,
        handled: 0,
        lost: 0,
        panicked_ms: None,
    }
}

/// The problems of a sample after ten uneventful seconds.
fn judged(sample: OverviewSample, troubles: CheckResults) -> Vec<Problem> {
    let mut ring = SampleRing::default();
    ring.push(super::super::sample::tests::sample(0));
    let sample = OverviewSample {
        at: super::super::sample::tests::sample(10_000).at,
        ..sample
    };
    let problems = judge(&JudgeInput {
        slow_since: SlowSince::default(),
        window: ring.window(&sample),
        sample: &sample,
        troubles,
    });
    problems.iter().for_each(assert_has_texts);
    problems
}

/// Checks that a problem's texts are whole sentences in every language.
#[track_caller]
fn assert_has_texts(problem: &Problem) {
    for lang in Lang::ALL {
        for text in [problem.summary(*lang), problem.action(*lang)] {
            let is_whole = text.ends_with('.') && !text.contains('{');
            assert!(is_whole, "{}: {text}", problem.code);
        }
    }
    assert_ne!(problem.summary(Lang::En), problem.summary(Lang::Id));
    assert_ne!(problem.action(Lang::En), problem.action(Lang::Id));
}

/// Results with a webhook in trouble since 2027-01-15 08:00.
fn troubled(trouble: WebhookTrouble) -> CheckResults {
    CheckResults {
        webhooks: vec![TroubledWebhook {
            webhook: webhook(),
            tenant: tenant(),
            trouble,
            since: Millis::from_i64(1_800_000_000_000),
        }],
        ..CheckResults::default()
    }
}

#[test]
fn an_alert_says_since_when_and_how_much() {
    let of = |due, last_answer: Option<&str>| {
        let backlog = WebhookBacklog {
            due,
            last_answer: last_answer.map(str::to_owned),
        };
        let mut problems = judged(
            sample(0),
            CheckResults {
                backlogs: [(webhook(), backlog)].into(),
                ..troubled(WebhookTrouble::Failing)
            },
        );
        let problem = problems.remove(0);
        assert_eq!(problem.since, Some(Millis::from_i64(1_800_000_000_000)));
        (problem.amount(Lang::En), problem.amount(Lang::Id))
    };
    for (due, answer, english, indonesian) in [
        (
            192,
            Some("500"),
            "192 deliveries wait, last answer 500",
            "192 pengiriman menunggu, jawaban terakhir 500",
        ),
        (
            1,
            Some("timeout"),
            "1 delivery waits, last answer timeout",
            "1 pengiriman menunggu, jawaban terakhir timeout",
        ),
        (0, None, "0 deliveries wait", "0 pengiriman menunggu"),
        (
            DUE_MAX,
            None,
            "1000 or more deliveries wait",
            "1000 atau lebih pengiriman menunggu",
        ),
    ] {
        let told = (Some(english.to_owned()), Some(indonesian.to_owned()));
        assert_eq!(of(due, answer), told);
    }
    let gone = OverviewSample {
        bridge_seen_ms: Some(180_000),
        ..sample(0)
    };
    let problems = judged(gone, CheckResults::default());
    assert_eq!(problems[0].since, Some(sample(10_000 - 180_000).at));
}

fn summary(problem: &Problem) -> String {
    problem.summary(Lang::En)
}

#[test]
fn nothing_is_said_where_all_is_well() {
    let well = OverviewSample {
        counters: FigureCounters {
            calls: 1_000,
            ..counters(0)
        },
        sockets: 2,
        bridge_seen_ms: Some(0),
        loops: vec![("core-0".to_owned(), 3)],
        actors: vec![actor("call", 5_000), actor("credit_ledger", 100)],
        ..sample(0)
    };
    let room = CheckResults {
        room: Some(DiskSpace { free_mib: 50_000 }),
        ..CheckResults::default()
    };
    assert_eq!(judged(well, room), []);
    // No problem either if there never was a bridge, or none is expected back.
    for seen in [None, Some(BRIDGES_FORGOTTEN_MS)] {
        let gone = OverviewSample {
            bridge_seen_ms: seen,
            ..sample(0)
        };
        assert_eq!(judged(gone, CheckResults::default()), []);
    }
}

fn slow(us: u64) -> dikala_actors::runtime::histogram::Distribution {
    let histogram = dikala_actors::runtime::histogram::Histogram::new(
        dikala_actors::runtime::histogram::ANSWER_US,
    );
    histogram.observe(us);
    histogram.reading()
}

#[rstest]
#[case::panic(OverviewSample { actors: vec![ActorSample { panicked_ms: Some(4_000), ..actor("credit_ledger", 0) }], ..sample(0) },
    Severity::Critical, "actor_restarted", "credit_ledger", "An actor panicked 4 s ago and was restarted: credit_ledger.")]
#[case::full(OverviewSample { actors: vec![actor("call_registry", 4_096)], ..sample(0) },
    Severity::Critical, "mailbox_full", "call_registry", "The mailbox of call_registry is full: 4096 messages wait, and senders wait or are refused.")]
#[case::backlog(OverviewSample { actors: vec![actor("call_registry", 101)], ..sample(0) },
    Severity::Warning, "mailbox_backlog", "call_registry", "101 messages wait for call_registry.")]
#[case::lost(OverviewSample { actors: vec![ActorSample { lost: 25, ..actor("call", 0) }], ..sample(0) },
    Severity::Warning, "messages_lost", "call", "2.5 messages a second to call are lost: senders gave up waiting.")]
#[case::blocked(OverviewSample { loops: vec![("calls-1".to_owned(), 2_300)], ..sample(0) },
    Severity::Critical, "event_loop_blocked", "calls-1", "The event loop of the thread calls-1 was blocked for 2 s.")]
#[case::books(OverviewSample { differences: 1, ..sample(0) }, Severity::Critical, "ledger_differences", "", "The books do not add up in 1 place.")]
#[case::clock_ahead(OverviewSample { clock_off_ms: 1_800_000, ..sample(0) }, Severity::Warning, "clock_off", "", "This machine's clock is 30 min ahead of the service's clock.")]
#[case::clock_behind(OverviewSample { clock_off_ms: -7_000, ..sample(0) }, Severity::Warning, "clock_off", "", "This machine's clock is 7 s behind the service's clock.")]
#[case::database_ahead(OverviewSample { database_off_ms: 300_000, ..sample(0) }, Severity::Warning, "database_clock_off", "", "The database's clock is 5 min ahead of the service's clock.")]
#[case::acknowledgements(OverviewSample { counters: FigureCounters { acknowledged: slow(2_000_000), ..counters(0) }, ..sample(0) },
    Severity::Critical, "acknowledgements_slow", "", "Bridges wait 2 s for replies about calls.")]
#[case::commits(OverviewSample { counters: FigureCounters { committed: slow(900_000), ..counters(0) }, ..sample(0) }, Severity::Warning, "commits_slow", "", "Commits of the ledger take 1 s.")]
#[case::requests(OverviewSample { requests: 100, failed_requests: 30, ..sample(0) }, Severity::Critical, "requests_fail", "", "30 % of all requests fail.")]
#[case::bridges(OverviewSample { bridge_seen_ms: Some(180_000), ..sample(0) }, Severity::Critical, "bridges_gone", "", "No bridge is connected; the last sign of life was 3 min ago.")]
#[case::late(OverviewSample { counters: FigureCounters { due_ms: 130_000, ..counters(0) }, ..sample(0) }, Severity::Warning, "deliveries_late", "", "A delivery has been due for 2 min although its endpoint is not failing.")]
#[case::own_faults(OverviewSample { own_faults: 3, ..sample(0) }, Severity::Warning, "deliveries_not_made", "", "3 attempts of deliveries could not be made by this service.")]
#[case::sealed(OverviewSample { sealed: 1, ..sample(0) }, Severity::Warning, "secrets_sealed", "", "The secret of 1 webhook does not open with secrets.key.")]
fn what_is_counted(
    #[case] sample: OverviewSample,
    #[case] severity: Severity,
    #[case] code: &str,
    #[case] target: &str,
    #[case] words: &str,
) {
    let problems = judged(sample, CheckResults::default());
    let [problem] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!((problem.severity, problem.code), (severity, code));
    assert_eq!(problem.target.as_deref().unwrap_or_default(), target);
    assert_eq!(summary(problem), words);
}

#[rstest]
#[case::failing(
    troubled(WebhookTrouble::Failing),
    "webhook_failing",
    "The webhook wh_01k9zv3m8rj2q4w6y8a0c2e4g6 of Kopi Senja keeps failing."
)]
#[case::paused(
    troubled(WebhookTrouble::Paused),
    "webhook_paused",
    "The webhook wh_01k9zv3m8rj2q4w6y8a0c2e4g6 of Kopi Senja is still paused."
)]
#[case::disabled(
    troubled(WebhookTrouble::Disabled),
    "webhook_disabled",
    "The webhook wh_01k9zv3m8rj2q4w6y8a0c2e4g6 of Kopi Senja was disabled because it kept failing."
)]
#[case::refused(CheckResults { refused: vec![RefusedTenant { tenant: tenant(), refused: 7, last: sample(4_000).at }],
        ..CheckResults::default() }, "credit_refused", "Kopi Senja has no minutes: 7 calls were refused within an hour.")]
#[case::short(CheckResults { short: vec![ShortTenant { tenant: tenant(), minutes: 40, hours: 9 }], ..CheckResults::default() },
    "credit_short", "The minutes of Kopi Senja are used up in about 9 h, at the pace of the last week.")]
#[case::ends(CheckResults { short: vec![ShortTenant { tenant: tenant(), minutes: 1, hours: 0 }], ..CheckResults::default() },
    "credit_ends", "The minutes of Kopi Senja are used up in less than an hour, at the pace of the last week.")]
#[case::hanging(CheckResults { hanging: vec![HangingWebhook { webhook: webhook(), tenant: tenant() }], ..CheckResults::default() },
    "endpoint_hangs", "An endpoint of Kopi Senja does not answer: webhook wh_01k9zv3m8rj2q4w6y8a0c2e4g6.")]
#[case::flood(CheckResults { flooding: vec![(tenant(), 312)], ..CheckResults::default() },
    "tenant_floods", "Kopi Senja exceeds its rate limit: 312 requests were refused within a minute.")]
fn who_is_affected(#[case] troubles: CheckResults, #[case] code: &str, #[case] words: &str) {
    for name in ["Kopi Senja", ""] {
        let names = (!name.is_empty()).then(|| (tenant(), name.to_owned()));
        let troubles = CheckResults {
            names: names.into_iter().collect(),
            ..troubles.clone()
        };
        let problems = judged(sample(0), troubles);
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert_eq!((problem.code, problem.tenant_id), (code, Some(tenant())));
        let words = match name {
            "" => words.replace("Kopi Senja", &tenant().to_string()),
            _ => words.to_owned(),
        };
        assert_eq!(summary(problem), words);
    }
}

#[test]
fn an_endpoint_that_is_known_to_fail_is_told_of_once() {
    let troubles = CheckResults {
        hanging: vec![HangingWebhook {
            webhook: webhook(),
            tenant: tenant(),
        }],
        more_webhooks: true,
        ..troubled(WebhookTrouble::Disabled)
    };
    let problems = judged(sample(0), troubles);
    let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["webhook_disabled", "more_webhooks"]);
}

#[test]
fn the_worst_comes_first_and_says_what_readiness_says() {
    let troubles = CheckResults {
        flooding: vec![(tenant(), 40)],
        unready: vec![
            (
                "store",
                "The database takes no writes: check whether its disk is full, or whether it is read-only.",
            ),
            (
                "creditLedger",
                "The actor that books minutes (credit_ledger) does not answer.",
            ),
        ],
        room: Some(DiskSpace { free_mib: 1 }),
        ..CheckResults::default()
    };
    let late = OverviewSample {
        counters: FigureCounters {
            due_ms: 130_000,
            ..counters(0)
        },
        ..sample(0)
    };
    let problems = judged(late, troubles);
    let told: Vec<(&str, String)> = problems
        .iter()
        .map(|problem| (problem.code, summary(problem)))
        .collect();
    assert_eq!(
        told[0],
        ("not_ready", "The database takes no writes.".to_owned())
    );
    assert_eq!(
        problems[0].action(Lang::En),
        "Check whether its disk is full, or whether it is read-only."
    );
    assert_eq!(problems[0].target.as_deref(), Some("store"));
    assert_eq!(
        told[1].1,
        "The actor that books minutes (credit_ledger) does not answer."
    );
    assert!(problems[1].action(Lang::En).contains("restart"));
    let codes: Vec<&str> = told.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes[2..], ["disk_low", "deliveries_late", "tenant_floods"]);
}

/// The names of the checks are lines of their own in their source.
#[test]
fn every_readiness_check_has_words_in_every_language() {
    let lines = include_str!("../../operator/health.rs").lines();
    let names = lines.filter_map(|line| {
        let name = line.trim().strip_prefix('"')?.strip_suffix("\",")?;
        name.bytes()
            .all(|it| it.is_ascii_alphabetic())
            .then_some(name)
    });
    let words = "It fails: see the log.";
    let unready: Vec<_> = names.map(|name| (name, words)).collect();
    assert!(unready.contains(&("lease", words)), "{unready:?}");
    let troubles = CheckResults {
        unready,
        ..CheckResults::default()
    };
    for problem in judged(sample(0), troubles) {
        assert_eq!(summary(&problem), "It fails.");
        assert_eq!(problem.action(Lang::En), "See the log.");
        let told = (problem.summary(Lang::Id), problem.action(Lang::Id));
        assert!(
            told.0 != "It fails." && told.1 != "See the log.",
            "{problem:?}"
        );
    }
}
