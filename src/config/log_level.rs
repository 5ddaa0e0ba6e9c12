//! The log level: one for everything, and others for parts of the program, as in `RUST_LOG`.

use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The crates of the program, which begin its log targets.
const CRATES: [&str; 6] = [
    "dikala",
    "dikala_actors",
    "dikala_entities",
    "dikala_protocol",
    "dikala_sip",
    "dikala_telephony",
];
/// The prefix of the program's own log targets.
const OWN: &str = "dikala";
/// The default level when only modules are named.
const LEVEL: LevelFilter = LevelFilter::INFO;
/// Libraries log at most this level: below it they log the data that they process, keys and passwords included.
const LIBRARIES: LevelFilter = LevelFilter::WARN;
/// The only library target that can be configured: the text of SQL statements, without bound values.
const STATEMENTS: &str = "sqlx::query";
/// This library logs invalid input of clients and tenants' servers as errors, in several lines each. Requests and
/// attempts have log lines of their own.
const UNHEARD: &str = "actix_http";

/// A log level as it is configured: `info`, or `info,dikala_actors=debug`, or `info,sqlx::query=debug`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLevel(Targets);

impl FromStr for LogLevel {
    type Err = String;

    /// Errors: half a sentence that names the unreadable part.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut default = None;
        let mut named = Vec::new();
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
                Some((target, level)) => {
                    let target = target.trim();
                    if !is_part(target) && target != STATEMENTS {
                        return Err(format!(
                            "{target:?} is no part of this program; they are {} and the modules in them, such as \
                             dikala_actors::webhooks, and {STATEMENTS} for the statements",
                            CRATES.join(", ")
                        ));
                    }
                    named.push((target, parse_level(level.trim())?));
                }
            }
        }
        let default = default.unwrap_or(LEVEL);
        Ok(Self(
            Targets::new()
                .with_default(default.min(LIBRARIES))
                .with_target(OWN, default)
                .with_target(UNHEARD, LevelFilter::OFF)
                .with_targets(named),
        ))
    }
}

/// True if this names a crate of the program, or a module in one.
fn is_part(target: &str) -> bool {
    let mut names = target.split("::");
    names.next().is_some_and(|name| CRATES.contains(&name))
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
    /// The filter of log lines. The longest name that begins a line's target decides.
    pub fn filter(self) -> Targets {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn level(text: &str) -> Targets {
        text.parse::<LogLevel>().expect("a level").filter()
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
            ("dikala_actors::=debug", "no part"),
            ("dikala::app::=debug", "no part"),
        ] {
            let error = text.parse::<LogLevel>().expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn parts_alone_leave_the_rest_at_info() {
        let level = level("dikala_actors::calls=debug");
        assert!(level.would_enable("dikala::app", &Level::INFO));
        assert!(!level.would_enable("dikala::app", &Level::DEBUG));
        assert!(level.would_enable("dikala_actors::calls", &Level::DEBUG));
    }

    #[test]
    fn the_nearest_module_decides_and_libraries_stay_quiet() {
        let level = level("warn,dikala=info,dikala_actors::calls=off,dikala_actors=trace");
        for (target, of, expected) in [
            ("dikala::app", Level::INFO, true),
            ("dikala::app", Level::DEBUG, false),
            ("dikala_entities::store", Level::INFO, true),
            ("dikala_entities::store", Level::DEBUG, false),
            ("dikala_actors::webhooks", Level::TRACE, true),
            ("dikala_actors::calls", Level::ERROR, false),
            ("dikala_actors::calls::machine", Level::ERROR, false),
            ("dikala_actors::calling", Level::TRACE, true),
            ("sqlx::query", Level::WARN, true),
            ("actix_server::builder", Level::INFO, false),
            ("actix_http::h1::dispatcher", Level::ERROR, false),
        ] {
            assert_eq!(level.would_enable(target, &of), expected, "{target} {of}");
        }
        let all = self::level("trace");
        assert!(!all.would_enable("sea_orm::database", &Level::INFO));
        assert!(!all.would_enable("sqlx", &Level::TRACE));
        assert!(!all.would_enable(STATEMENTS, &Level::DEBUG));
        let asked = self::level("info,sqlx::query=debug");
        assert!(asked.would_enable(STATEMENTS, &Level::DEBUG));
        assert!(!asked.would_enable("sqlx::pool", &Level::DEBUG));
    }
}
