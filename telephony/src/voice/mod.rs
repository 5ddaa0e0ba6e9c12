//! The voice of an agent. A voice session is a pair of bounded channels; every voice implements only [`Provider`].

mod common;
pub mod gemini;
pub mod openai;
mod phrases;
mod scripted;
mod session;

#[cfg(test)]
pub(crate) use common::simulated::SimulatedVoice;
pub(crate) use common::words::late_outcome;
pub use phrases::Phrase;
use phrases::is_indonesian;
pub use scripted::Scripted;
pub use session::{Provider, ToolOutcome, Usage, VoiceEvent, VoiceInput, VoiceSession, VoiceSetup};
