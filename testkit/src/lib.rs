//! What the tests of more than one crate stand on. A development dependency of theirs: nothing of it is part of the program,
//! and it knows nothing of actors or HTTP handlers.
//!
//! - [`StoreKind`] is what a test runs on; [`StoreKind::open`] gives it a migrated store of its own, [`StoreKind::place`] the
//!   URL of one that a program is to open. [`both`] opens one of each. What a test made goes away with what it was given.
//! - [`Receiver`] is a customer's server that answers as well or as badly as [`Answer`] says, and remembers what came.
//! - [`Postbox`] is an operator's mail server that behaves as well or as badly as [`Post`] says, and keeps what it took.
//! - [`OwnPostgres`] is a PostgreSQL server to do harm to: stopped, restarted, copied to a standby.
//! - [`gemini`] is a model that listens and speaks, as strict as the real one is documented to be and as faulty as it is told to.
//! - [`phone`] is a SIP phone without its audio.
//! - [`tls`] is what servers and clients of TLS are made of, with the certificates of [`certificate`].
//! - [`rows`] are initial rows, [`large`] those of years.
//! - [`free_port`] is for who has to be told his port, or is to find nobody at one.
//! - [`eventually`] waits for a condition. No test sleeps and hopes.
//!
//! PostgreSQL is started once per test process, from the programs that are installed. Without them its tests are skipped, or
//! fail where `DIKALA_REQUIRE_POSTGRES=1` says that they have to run.

#![warn(unreachable_pub)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod aside;
pub mod certificate;
mod folder;
pub mod gemini;
pub mod large;
mod own_postgres;
pub mod phone;
mod place;
mod port;
mod postbox;
pub mod postgres;
mod receiver;
pub mod rows;
mod schema;
mod stores;
pub mod tls;
mod wait;

pub use folder::folder;
pub use own_postgres::{OwnPostgres, Stop};
pub use place::{Place, StoreKind};
pub use port::free_port;
pub use postbox::{Encryption, Letter, Post, Postbox};
pub use receiver::{Answer, Event, Received, Receiver, signature};
pub use stores::{Keep, both, durable, postgres, sqlite};
pub use wait::{PATIENCE, eventually, within};
