//! The SIP edge from outside: with test phones that send exactly what a test wants, and with programs
//! from Debian (sipp, sipsak, baresip, linphone, twinkle, kamailio, rtpengine) and PyPI (PJSIP). Tests of missing programs are skipped
//! with a note; with `DIKALA_REQUIRE_SIP=1` they fail.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod baresip;
mod behind_nat;
mod bodies;
mod calls;
mod carriers;
mod changes;
mod diagnosis;
mod dialling;
mod digests;
mod edges;
mod faults;
mod flood;
mod guessing;
mod hops;
mod hostile;
mod joined;
mod keys;
mod linphone;
mod loss;
mod nat;
mod negotiated;
mod persons;
mod pjsip;
mod programs;
mod proofs;
mod refreshes;
mod registering;
mod renewals;
mod resolving;
mod routes;
mod secured;
mod servers;
mod strangers;
mod support;
mod transfers;
mod trunk_options;
mod twinkle;
mod whatsapp;
