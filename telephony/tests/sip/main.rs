//! The SIP edge from outside: phones of our own that say exactly what a test wants, and sipp, baresip and kamailio from Debian.
//! Programs that are not installed are skipped with a word, and with `DIKALA_REQUIRE_SIP=1` their absence is a failure.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod bodies;
mod calls;
mod changes;
mod digests;
mod edges;
mod faults;
mod guessing;
mod hops;
mod hostile;
mod loss;
mod matrix;
mod nat;
mod persons;
mod programs;
mod proofs;
mod registering;
mod secured;
mod stopping;
mod strangers;
mod support;
