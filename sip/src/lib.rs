//! A SIP edge: the back-to-back end of calls from trunks and phones, for a program that hears and speaks.
//!
//! An [`Edge`] is started with [`settings`] (listeners, trunks) and a channel. It admits calls, and sends each as an
//! [`OfferedCall`](leg::OfferedCall) with a [`leg`]: bounded channels for orders and speech to the phone, and for events from it.
//! It counts in [`statistics`], measures [`quality`], and keeps the [`Ladder`]s of the last calls. [`try_listen`],
//! [`try_rtp_ports`], [`try_registrar`] and [`find_targets`] test a configuration.
//!
//! Messages, transports and transactions are implemented here. The available SIP stacks log whole messages with numbers and
//! digests, queue without bound, and do not answer messages that they cannot parse. They would also leave session timers,
//! reliable provisional responses and delayed offers to us.

mod address_rules;
mod call;
mod dialog;
mod digest;
mod edge;
mod histogram;
mod identities;
mod ladder;
pub mod leg;
mod limits;
mod lines;
mod media;
mod message;
mod numbers;
pub mod quality;
mod refusals;
mod registrars;
mod resolution;
pub mod settings;
mod shared;
pub mod statistics;
mod transactions;
mod transport;
mod trunks;
mod whatsapp;

pub use self::media::{
    fir::Resampler,
    tones::{waiting_tone, warning_tone},
    web::{WebFault, WebMedia},
};
pub use self::{
    edge::{
        AddressFault, Edge, RegistrationError, SipError, find_targets, outbound_proxy, registrar,
        try_listen, try_registrar, try_rtp_ports,
    },
    ladder::{Ladder, LadderMessage},
    resolution::SipTarget,
};
