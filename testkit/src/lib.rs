//! Common helpers for the tests of several crates. A development dependency only: it is no part of the program, and depends on
//! neither actors nor HTTP handlers.
//!
//! - [`StoreKind`] is the kind of store that a test runs on. [`StoreKind::open`] returns a migrated store, [`StoreKind::place`] the
//!   URL of an empty one. [`both`] opens one of each kind. Dropping the returned value removes the data.
//! - [`TenantServer`] is a customer's server that answers as [`ServerAnswer`] says, and records its requests.
//! - [`Postbox`] is a mail server that behaves as [`MailTreatment`] says, and keeps its mails.
//! - [`OwnPostgres`] is a PostgreSQL server for fault tests: it can be stopped, restarted, and copied to a standby.
//! - [`PatroniPair`] are two PostgreSQL servers of which one follows the other by itself.
//! - [`gemini`] is a simulated model that enforces the real one's documented rules, and misbehaves on demand.
//! - [`openai`] is the same for OpenAI Realtime, [`pipeline`] for the three endpoints of a pipeline.
//! - A [`ModelLine`] is a connection of [`gemini`] or [`openai`] without a socket, for simulated time.
//! - [`phone`] is a SIP phone without audio.
//! - [`meta`] is a simulated Meta: settings of a business number, and calls from WhatsApp.
//! - [`json_schema`] compares a value with a schema.
//! - [`tls`] has servers and clients of TLS, with the certificates of [`certificate`].
//! - [`rows`] has initial rows; [`large`] fills tables with years of data.
//! - [`free_port`] returns a port for a program that needs a fixed one, or one where nothing listens.
//! - [`eventually`] waits for a condition. Tests never sleep instead.
//!
//! PostgreSQL is started once per test process, from the installed programs. Without them its tests are skipped, or fail if
//! `DIKALA_REQUIRE_POSTGRES=1` is set.

#![warn(unreachable_pub)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod aside;
pub mod certificate;
mod folder;
pub mod gemini;
pub mod json_schema;
pub mod large;
pub mod meta;
mod model_line;
mod model_socket;
pub mod openai;
mod own_postgres;
mod patroni;
pub mod phone;
pub mod pipeline;
mod place;
mod port;
mod postbox;
pub mod postgres;
mod receiver;
pub mod rows;
mod schema;
mod shell;
mod shipped;
mod sound;
mod stores;
pub mod tls;
mod wait;

pub use folder::folder;
pub use model_line::ModelLine;
pub use own_postgres::{OwnPostgres, Stop};
pub use patroni::{Loss, PatroniPair};
pub use place::{StoreKind, StorePlace};
pub use port::free_port;
pub use postbox::{Encryption, MailTreatment, Postbox, ReceivedMail};
pub use receiver::{ReceivedEvent, ReceivedRequest, ServerAnswer, TenantServer, signature};
pub use shipped::shipped;
pub use stores::{StoreGuard, both, durable, postgres, sqlite};
pub use wait::{PATIENCE, eventually, within};
