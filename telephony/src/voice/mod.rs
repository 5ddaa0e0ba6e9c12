//! The voice of an agent: a session is a pair of bounded channels, and whoever speaks for the agent implements that and nothing else.

pub mod gemini;
mod session;

pub use session::{Agent, FunctionDeclaration, Heard, Provider, Session, Setup, Spoken, Usage};
