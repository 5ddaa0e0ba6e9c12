//! Sizes of fault tests.

use std::time::Duration;

use super::load::{ANSWERED_WITHIN, LoadRate};

/// Short in `.ci/slow`, long in `.ci/faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultForm {
    Short,
    Long,
}

impl FaultForm {
    /// The long form if `DIKALA_FAULTS` of the environment is `long`.
    pub fn asked() -> Self {
        match std::env::var("DIKALA_FAULTS").as_deref() {
            Ok("long") => Self::Long,
            Ok(other) => panic!("DIKALA_FAULTS is \"long\" or not set, not {other:?}"),
            Err(_) => Self::Short,
        }
    }

    /// A size: in the long form `DIKALA_FAULTS_{name}` of the environment, or else the given default.
    pub fn size(self, name: &str, short: u64, long: u64) -> u64 {
        if self == Self::Short {
            return short;
        }
        let variable = format!("DIKALA_FAULTS_{name}");
        let said = std::env::var(&variable).ok();
        said.map_or(long, |said| {
            said.parse()
                .unwrap_or_else(|_| panic!("{variable} is a whole number, not {said:?}"))
        })
    }

    pub fn rate(self) -> LoadRate {
        LoadRate {
            calls_per_second: self.size("CALLS_PER_SECOND", 10, 100),
            writes_per_second: self.size("WRITES_PER_SECOND", 2, 20),
            lives: Duration::from_secs(4),
            answered_within: ANSWERED_WITHIN,
        }
    }

    /// Duration of an outage.
    pub fn away(self, short: u64) -> Duration {
        Duration::from_secs(self.size("AWAY_SECONDS", short, 60))
    }
}
