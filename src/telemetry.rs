//! Logs: to standard error, as text on a terminal and as JSON elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::{
    Layer, Registry, filter::LevelFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::config::LogKeys;

/// Starts logging. A second call changes nothing.
pub fn init(log: &LogKeys) {
    let filter = log.level().filter();
    let on_terminal = std::io::stderr().is_terminal();
    let json = match log.format.as_str() {
        "json" => true,
        "text" => false,
        _ => !on_terminal,
    };
    let layer: Box<dyn Layer<Registry> + Send + Sync> = if json {
        let lines = fmt::layer()
            .json()
            .flatten_event(true)
            .with_span_list(false);
        lines.with_writer(std::io::stderr).boxed()
    } else {
        let colours = on_terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let lines = fmt::layer().with_ansi(colours);
        lines.with_writer(std::io::stderr).boxed()
    };
    // Fails only where a subscriber is set already.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init();
}

/// Shows the warnings of a command, which name the causes of what it cannot do.
pub fn init_for_command() {
    let lines = fmt::layer().without_time().with_target(false);
    let lines = lines.with_ansi(false).with_writer(std::io::stderr);
    // Fails only where a subscriber is set already.
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(LevelFilter::WARN))
        .try_init();
}
