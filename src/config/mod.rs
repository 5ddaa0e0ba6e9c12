//! The configuration: layers, keys with origins, and the typed [`Settings`].
//!
//! [`entries`] holds the keys with their values, [`layers`] merges them, [`checks`] validates the values and
//! [`settings`] gives them types.

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

pub use entries::{ConfigOrigin, ConfigurationKey, Layers};
pub use log_level::LogLevel;
pub use mail::MailServer;
pub use settings::{LogKeys, Retention, Settings};
pub use telephony::{WhatsAppAccount, WhatsAppTrunk};

/// The configuration is invalid; the message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ConfigError {
    /// All faults, one per line.
    fn all(faults: Vec<Self>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = faults.into_iter().map(|fault| fault.0).collect();
        Err(Self(lines.join("\n")))
    }
}
