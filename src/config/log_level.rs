//! The log level: one for everything, and others for modules.

use std::str::FromStr;

use tracing::{Level, Metadata, level_filters::LevelFilter};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The prefix of the program's own log targets.
const OWN: &str = "dikala";
/// The crates of the program with their modules.
#[rustfmt::skip]
const PARTS: [(&str, &[&str]); 6] = [
    ("dikala", &[
        "api", "app", "audit", "bridge", "cli", "common_passwords", "config", "console", "dashboard", "front", "http", "mails", "maintenance", "node", "openapi", "operations", "operator", "operator_api", "overview", "pages", "routes",
        "simulator", "telemetry", "telephony",
    ]),
    ("dikala_actors", &[
        "bridges", "calls", "events", "functions", "journal", "ledger", "mails", "nodes", "outbound", "runtime", "traces", "webhooks",
    ]),
    ("dikala_entities", &["batch", "nesting", "rows", "store", "tables", "values", "vault"]),
    ("dikala_protocol", &["agent", "client", "command", "message", "read", "reply"]),
    ("dikala_sip", &["address_rules", "call", "dialog", "digest", "edge", "leg", "limits", "lines", "media", "message", "numbers", "refusals", "registrars", "resolution", "settings", "shared", "statistics", "transactions", "transport", "trunks"]),
    ("dikala_telephony", &["bridge", "call", "settings", "threads", "trust", "voice"]),
];
/// The default level when only modules are named.
const LEVEL: LevelFilter = LevelFilter::INFO;
/// Libraries log at most this level: below it they log the data that they process, keys and passwords included.
const LIBRARIES: Level = Level::WARN;
/// The only library target that can be configured: the text of SQL statements, without bound values.
const STATEMENTS: &str = "sqlx::query";
/// This library logs invalid input of clients and tenants' servers as errors, in several lines each. Requests and
/// attempts have log lines of their own.
const UNHEARD: &str = "actix_http";

/// A log level as it is configured: `info`, or `info,dikala_actors=debug`, or `info,sqlx::query=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel {
    default: LevelFilter,
    /// Longest target first.
    targets: Vec<(String, LevelFilter)>,
}

impl FromStr for LogLevel {
    type Err = String;

    /// Errors: half a sentence that names the unreadable part.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut default = None;
        let mut targets = Vec::new();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => {
                    if let Some(other) = default.replace(parse_level(part)?) {
                        return Err(format!(
                            "it names two levels for everything, {other} and {part}; name one, and others for parts, such as \
                             info,dikala_actors=debug"
                        ));
                    }
                }
                Some((target, of_target)) => {
                    let target = target.trim();
                    if !is_part(target) && target != STATEMENTS {
                        return Err(format!(
                            "{target:?} is no part of this program; they are dikala, dikala_actors, dikala_entities, dikala_protocol, dikala_sip, dikala_telephony and the \
                             modules in them, such as dikala_actors::webhooks, and {STATEMENTS} for the statements"
                        ));
                    }
                    targets.push((target.to_owned(), parse_level(of_target.trim())?));
                }
            }
        }
        targets.sort_by_key(|(target, _): &(String, _)| std::cmp::Reverse(target.len()));
        Ok(Self {
            default: default.unwrap_or(LEVEL),
            targets,
        })
    }
}

/// True if this names a crate of the program, one of its modules, or something in that.
fn is_part(target: &str) -> bool {
    let mut names = target.split("::");
    let named = names.next().unwrap_or_default();
    let part = PARTS.iter().find(|(part, _)| *part == named);
    let Some((_, modules)) = part else {
        return false;
    };
    names.next().is_none_or(|module| modules.contains(&module))
        && names.all(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
}

fn parse_level(text: &str) -> Result<LevelFilter, String> {
    let lower = text.to_ascii_lowercase();
    if LEVELS.contains(&lower.as_str())
        && let Ok(level) = lower.parse()
    {
        return Ok(level);
    }
    let near = LEVELS
        .iter()
        .filter(|level| {
            !lower.is_empty()
                && (lower.starts_with(*level) || strsim::levenshtein(level, &lower) <= 1)
        })
        .map(|level| format!("; did you mean {level}?"))
        .next();
    Err(format!(
        "{text:?} is no level; levels are {}{}",
        LEVELS.join(", "),
        near.unwrap_or_default()
    ))
}

impl LogLevel {
    /// True if an event with this metadata is logged.
    pub fn allows(&self, metadata: &Metadata<'_>) -> bool {
        self.allows_of(metadata.target(), *metadata.level())
    }

    fn allows_of(&self, target: &str, level: Level) -> bool {
        if is_below(target, UNHEARD) {
            return false;
        }
        let asked_for = self
            .targets
            .iter()
            .find(|(above, _)| is_below(target, above));
        match asked_for {
            Some((_, most)) => level <= *most,
            None if target.starts_with(OWN) => level <= self.default,
            None => level <= LIBRARIES && level <= self.default,
        }
    }

    /// The most verbose level of all targets.
    pub fn most(&self) -> LevelFilter {
        let targets = self.targets.iter().map(|(_, level)| *level);
        targets.fold(self.default, LevelFilter::max)
    }
}

/// True if the target is the module or inside it.
fn is_below(target: &str, module: &str) -> bool {
    target
        .strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> LogLevel {
        text.parse().expect("a level")
    }

    #[test]
    fn what_is_documented_is_taken_and_the_rest_is_not() {
        for text in LEVELS {
            level(text);
            level(&text.to_uppercase());
        }
        level("info,dikala_actors=debug, dikala_actors::webhooks = trace");
        for (text, words) in [
            ("warning", "did you mean warn?"),
            ("debg", "did you mean debug?"),
            ("", "no level"),
            ("info,", "no level"),
            ("verbose", "levels are off, error"),
            ("dikala_actors=loud", "\"loud\""),
            ("sqlx=debug", "\"sqlx\""),
            ("info,[span]=debug", "no part"),
            ("3", "no level"),
            ("info,warn", "two levels for everything, info and warn"),
            ("dikala_nope=debug", "\"dikala_nope\" is no part"),
            ("dikalaa=debug", "no part"),
            ("dikala_actors::nope=debug", "no part"),
            ("dikala_actors::=debug", "no part"),
            ("dikala::app::=debug", "no part"),
        ] {
            let error = text.parse::<LogLevel>().expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_parts_are_those_that_there_are() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = [
            ("dikala", "src"),
            ("dikala_actors", "actors/src"),
            ("dikala_entities", "entities/src"),
            ("dikala_protocol", "protocol/src"),
            ("dikala_sip", "sip/src"),
            ("dikala_telephony", "telephony/src"),
        ];
        assert_eq!(PARTS.len(), sources.len());
        for ((part, modules), (named, folder)) in PARTS.into_iter().zip(sources) {
            assert_eq!(part, named);
            let mut there: Vec<String> = std::fs::read_dir(root.join(folder))
                .expect("the sources")
                .map(|file| file.expect("a file").path())
                .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
                // The simulation is compiled for tests only.
                .filter(|name| !["lib", "main", "simulation"].contains(&name.as_str()))
                .collect();
            there.sort_unstable();
            there.dedup();
            assert_eq!(modules, there, "{part}");
        }
    }

    #[test]
    fn parts_alone_leave_the_rest_at_info() {
        let level = level("dikala_actors::calls=debug");
        assert!(level.allows_of("dikala::app", Level::INFO));
        assert!(!level.allows_of("dikala::app", Level::DEBUG));
        assert!(level.allows_of("dikala_actors::calls", Level::DEBUG));
    }

    #[test]
    fn the_nearest_module_decides_and_libraries_stay_quiet() {
        let level = level("warn,dikala=info,dikala_actors::calls=off,dikala_actors=trace");
        for (target, of, expected) in [
            ("dikala::app", Level::INFO, true),
            ("dikala::app", Level::DEBUG, false),
            ("dikala_entities::store", Level::INFO, false),
            ("dikala_actors::webhooks", Level::TRACE, true),
            ("dikala_actors::calls", Level::ERROR, false),
            ("dikala_actors::calls::machine", Level::ERROR, false),
            ("dikala_actors::calling", Level::TRACE, true),
            ("sqlx::query", Level::WARN, true),
            ("actix_server::builder", Level::INFO, false),
            ("actix_http::h1::dispatcher", Level::ERROR, false),
        ] {
            assert_eq!(level.allows_of(target, of), expected, "{target} {of}");
        }
        assert_eq!(level.most(), LevelFilter::TRACE);
        let all = self::level("trace");
        assert!(!all.allows_of("sea_orm::database", Level::INFO));
        assert!(!all.allows_of("sqlx", Level::TRACE));
        assert!(!all.allows_of(STATEMENTS, Level::DEBUG));
        let asked = self::level("info,sqlx::query=debug");
        assert!(asked.allows_of(STATEMENTS, Level::DEBUG));
        assert!(!asked.allows_of("sqlx::pool", Level::DEBUG));
    }
}
