//! The configuration: layers, keys, where each value came from, and the typed [`Settings`] made of them.
//!
//! [`layers`] puts the layers together and knows every key; [`settings`] checks the values.

mod layers;
mod settings;

pub use layers::{Entry, Layers, Origin};
pub use settings::{Log, Retention, Settings};

/// The configuration cannot be used; a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);
