//! Logs: to standard error, as text on a terminal and as JSON elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{ConfigError, Log};

/// Starts logging. A second call changes nothing.
pub fn init(log: &Log) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| {
        ConfigError(format!(
            "log.level is {:?}, which cannot be read: {error}",
            log.level
        ))
    })?;
    let json = match log.format.as_str() {
        "json" => true,
        "text" => false,
        _ => !std::io::stderr().is_terminal(),
    };
    let registry = tracing_subscriber::registry().with(filter);
    // Fails only where a subscriber is set already.
    let _ = if json {
        registry
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(std::io::stderr),
            )
            .try_init()
    } else {
        registry
            .with(fmt::layer().with_writer(std::io::stderr))
            .try_init()
    };
    Ok(())
}
