//! The voice of an agent: a session is a pair of bounded channels, and whoever speaks for the agent implements that and nothing else.

pub mod gemini;
mod phrases;
mod scripted;
mod session;

pub use phrases::Phrase;
use phrases::is_indonesian;
pub use scripted::Scripted;
pub use session::{Agent, FunctionDeclaration, Heard, Provider, Session, Setup, Spoken, Usage};
