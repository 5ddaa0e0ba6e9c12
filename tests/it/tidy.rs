//! The sources follow the rules: imports run one way, decisions are pure, files state their purpose and are short,
//! one clock tells the time, and a tenant's reads start from the tenant. Names, comments and documents are plain.
//!
//! Exceptions are listed here with their sizes, and can only shrink.

mod imports;
mod language;
mod rules;
mod samples;
mod source;

use std::path::Path;

use self::{
    imports::circles,
    language::{long_sentences, types_declared_twice, unclear_comments, unknown_modules},
    rules::{
        compared_secrets, impure, long_files, long_functions, own_clocks, reads_of_everybody,
        without_a_purpose,
    },
    source::File,
};

/// Files above the limit, with their lines.
const LONG_FILES: &[(&str, usize)] = &[];

/// Functions above the limit, with their lines.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Modules of decisions, which never wait and use neither clock nor store.
const PURE: &[&str] = &[
    "actors/src/bridges/pauses.rs",
    "actors/src/calls/machine",
    "actors/src/runtime/circuit.rs",
    "actors/src/functions/schema",
    "actors/src/ledger/plan.rs",
    "actors/src/nodes/lease.rs",
    "actors/src/outbound/answer",
    "actors/src/outbound/guard.rs",
    "actors/src/outbound/names.rs",
    "actors/src/traces/otlp.rs",
    "actors/src/webhooks/attempt/signature.rs",
    "actors/src/webhooks/retry.rs",
    "actors/src/webhooks/scheduler",
    "entities/src/foreign_json.rs",
    "entities/src/nesting.rs",
    "protocol/src/client/events.rs",
    "protocol/src/client/exchange.rs",
    "protocol/src/client/posted.rs",
    "protocol/src/message.rs",
    "protocol/src/read",
    "protocol/src/reply.rs",
    "sip/src/address_rules.rs",
    "sip/src/call/invitation.rs",
    "sip/src/call/outbound.rs",
    "sip/src/call/session_timer.rs",
    "sip/src/dialog/attempts.rs",
    "sip/src/dialog/mod.rs",
    "sip/src/digest/answers.rs",
    "sip/src/digest/mod.rs",
    "sip/src/edge/configured_address.rs",
    "sip/src/identities.rs",
    "sip/src/ladder/kept.rs",
    "sip/src/ladder/masking.rs",
    "sip/src/ladder/shown.rs",
    "sip/src/limits",
    "sip/src/lines/line_counts.rs",
    "sip/src/media",
    "sip/src/message",
    "sip/src/numbers.rs",
    "sip/src/quality/e_model.rs",
    "sip/src/quality/percentile.rs",
    "sip/src/resolution/order.rs",
    "sip/src/resolution/records.rs",
    "sip/src/transactions/places.rs",
    "src/dashboard/agents/parameter_rows.rs",
    "src/examples/answers.rs",
    "src/http/extract/key_order.rs",
    "sip/src/trunks.rs",
    "src/bridge/protocol",
    "src/cli/top/actors.rs",
    "src/cli/top/overview.rs",
    "src/cli/top/view.rs",
    "src/http/gate/rate.rs",
    "src/overview/figures.rs",
    "src/overview/history.rs",
    "src/overview/judge.rs",
    "src/overview/ongoing.rs",
    "src/overview/ring.rs",
    "src/simulator/call.rs",
    "src/simulator/engine.rs",
    "telephony/src/call/machine",
    "telephony/src/voice/common/backoff.rs",
    "telephony/src/voice/common/bill.rs",
    "telephony/src/voice/common/conversation.rs",
    "telephony/src/voice/common/exchange.rs",
    "telephony/src/voice/common/held_audio.rs",
    "telephony/src/voice/common/messages.rs",
    "telephony/src/voice/common/model_error.rs",
    "telephony/src/voice/common/own_turns.rs",
    "telephony/src/voice/common/playback.rs",
    "telephony/src/voice/common/speech.rs",
    "telephony/src/voice/common/summary.rs",
    "telephony/src/voice/common/tool_calls.rs",
    "telephony/src/voice/common/words.rs",
    "telephony/src/voice/gemini/machine",
    "telephony/src/voice/gemini/profile.rs",
    "telephony/src/voice/gemini/setup.rs",
    "telephony/src/voice/gemini/wire",
    "telephony/src/voice/openai/machine",
    "telephony/src/voice/openai/session_update.rs",
    "telephony/src/voice/openai/wire",
    "telephony/src/voice/phrases.rs",
    "telephony/src/voice/pipeline/clauses.rs",
    "telephony/src/voice/pipeline/machine",
    "telephony/src/voice/pipeline/transcripts.rs",
    "telephony/src/voice/pipeline/wire.rs",
    "telephony/src/voice/scripted/arguments.rs",
    "telephony/src/voice/scripted/speech_detector.rs",
    "telephony/src/voice/scripted/script.rs",
];

fn workspace() -> Vec<File> {
    source::below(Path::new(env!("CARGO_MANIFEST_DIR")), ".rs")
}

/// The documents of this project: not those of the packages for its clients.
fn documents() -> Vec<File> {
    let mut found = source::below(Path::new(env!("CARGO_MANIFEST_DIR")), ".md");
    found.retain(|file| file.path.starts_with("docs/") || !file.path.contains('/'));
    found
}

fn expect_none(what: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{what}:\n{}", breaches.join("\n"));
}

#[test]
fn imports_run_one_way() {
    let files = workspace();
    let roots = files
        .iter()
        .filter(|file| file.path.ends_with("src/lib.rs"));
    let found: Vec<String> = roots
        .flat_map(|root| circles(&files, &root.path))
        .map(|circle| {
            format!(
                "{} of {}\n  {}",
                circle.rooms.join(" and "),
                circle.at,
                circle.because.join("\n  ")
            )
        })
        .collect();
    expect_none("modules that need each other", &found);
}

#[test]
fn every_file_says_what_it_is_for() {
    expect_none(
        "files without //! at the top",
        &without_a_purpose(&workspace()),
    );
}

#[test]
fn files_and_functions_are_short() {
    let files = workspace();
    expect_none("files", &long_files(&files, LONG_FILES));
    expect_none("functions", &long_functions(&files, LONG_FUNCTIONS));
}

#[test]
fn decisions_are_pure() {
    expect_none(
        "decisions that wait, ask for the time or read the store",
        &impure(&workspace(), PURE),
    );
}

#[test]
fn reads_for_tenants_begin_with_the_tenant() {
    expect_none(
        "reads that may find what is another tenant's; begin them with Entity::of",
        &reads_of_everybody(&workspace()),
    );
}

#[test]
fn one_clock_tells_the_time() {
    expect_none("clocks of their own", &own_clocks(&workspace()));
}

#[test]
fn secrets_are_compared_in_constant_time() {
    expect_none(
        "comparisons of secrets; take ct_eq",
        &compared_secrets(&workspace()),
    );
}

#[test]
fn a_name_means_one_thing() {
    expect_none(
        "public types with the name of another",
        &types_declared_twice(&workspace()),
    );
}

#[test]
fn comments_have_a_subject() {
    expect_none(
        "comments without a subject, or with `who` for a program",
        &unclear_comments(&workspace()),
    );
}

#[test]
fn sentences_of_documents_are_short() {
    expect_none("sentences to split", &long_sentences(&documents()));
}

#[test]
fn the_code_map_names_modules_that_exist() {
    let documents = documents();
    let map = documents
        .iter()
        .find(|it| it.path == "ARCHITECTURE.md")
        .unwrap();
    expect_none("no such module", &unknown_modules(map, &workspace()));
}
