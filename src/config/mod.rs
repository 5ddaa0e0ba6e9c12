//! The configuration: layers, keys, where each value came from, and the typed [`Settings`] made of them.
//!
//! [`entries`] are the keys with their values, [`layers`] puts them together; [`checks`] looks at the values, and [`settings`] has
//! them typed.

mod checks;
mod entries;
mod layers;
mod log_level;
mod mail;
mod mask;
mod nets;
mod operator;
mod price;
mod settings;
mod telemetry;
mod telephony;

pub use entries::{Layers, Origin, Shown};
pub use log_level::LogLevel;
pub use mail::MailServer;
pub use settings::{Log, Retention, Settings};

/// The configuration cannot be used; a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ConfigError {
    /// All that is wrong, a line each.
    fn all(faults: Vec<Self>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = faults.into_iter().map(|fault| fault.0).collect();
        Err(Self(lines.join("\n")))
    }
}
