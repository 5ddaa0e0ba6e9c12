//! A second leg that is to be called: where it goes, for whom, and why it may fail.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::sync::mpsc;

use super::{CallParties, Control};
use crate::{
    message::{Host, Uri},
    resolution::SipTarget,
    settings::Credentials,
    shared::Shared,
    statistics::OutcomeCounters,
    transport::Flow,
};

/// Where a call to a person goes.
#[derive(Debug)]
pub struct LegDestination {
    pub uri: Uri,
    /// The outbound proxy of the registration: requests go there in place of the URI.
    pub proxy: Option<Uri>,
    /// The caller's flow, if it leads there.
    pub known: Option<Flow>,
    /// The trunk's settings name it, not the caller's address.
    pub is_configured: bool,
}

/// A second leg.
#[derive(Debug)]
pub struct OutgoingLeg {
    pub shared: Arc<Shared>,
    pub caller: CallParties,
    pub to: LegDestination,
    /// The host whose servers are tried, and those that are left.
    pub host: Host,
    pub targets: VecDeque<SipTarget>,
    /// Credentials at the trunk.
    pub credentials: Option<Credentials>,
    /// The caller's media, which plays early media.
    pub hears_early: Option<mpsc::WeakSender<Control>>,
}

/// Why there is no leg, and the counter for it.
#[derive(Debug)]
pub struct NoLeg {
    pub why: String,
    pub counted: fn(&OutcomeCounters) -> &AtomicU64,
}

impl<W: Into<String>> From<W> for NoLeg {
    fn from(why: W) -> Self {
        Self {
            why: why.into(),
            counted: |of| &of.failed,
        }
    }
}

impl NoLeg {
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            counted: |of| &of.refused,
            ..why.into().into()
        }
    }

    pub fn cancelled(why: &str) -> Self {
        Self {
            counted: |of| &of.cancelled,
            ..why.into()
        }
    }
}

impl OutgoingLeg {
    pub fn new(
        shared: Arc<Shared>,
        caller: CallParties,
        to: LegDestination,
        hears_early: Option<mpsc::WeakSender<Control>>,
    ) -> Self {
        let place = to.proxy.as_ref().unwrap_or(&to.uri);
        Self {
            host: place.host.clone(),
            targets: VecDeque::new(),
            credentials: None,
            shared,
            caller,
            to,
            hears_early,
        }
    }
}
