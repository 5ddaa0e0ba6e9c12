//! A second leg that is to be called: where it goes, and for whom.

use std::{collections::VecDeque, net::IpAddr, sync::Arc};

use tokio::sync::mpsc;

use super::{CallParties, Control};
use crate::{
    lines::LinePermit,
    message::{Host, Uri},
    resolution::SipTarget,
    settings::Credentials,
    shared::Shared,
    transport::Flow,
};

/// The destination of a call to a person.
#[derive(Debug, Clone)]
pub struct LegDestination {
    pub uri: Uri,
    /// The outbound proxy of the registration: requests go there in place of the URI.
    pub proxy: Option<Uri>,
    /// The caller's flow, if it leads there.
    pub known: Option<Flow>,
    /// The trunk's settings name it, not the caller's address.
    pub is_configured: bool,
    /// The trunk is another than the caller's, so the leg counts against its limits.
    pub is_limited: bool,
}

/// A server that sent a redirection.
#[derive(Debug, Clone, Copy)]
pub struct RedirectingServer {
    pub ip: IpAddr,
    /// It had the trunk's credentials.
    pub is_ours: bool,
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
    /// Set after a redirection: the server that sent it.
    pub redirected_by: Option<RedirectingServer>,
    /// The address of the last server that was called.
    pub tried: Option<IpAddr>,
    /// The place that a limited leg has.
    pub line: Option<LinePermit>,
    /// The caller's media, which plays early media.
    pub hears_early: Option<mpsc::WeakSender<Control>>,
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
            redirected_by: None,
            tried: None,
            line: None,
            shared,
            caller,
            to,
            hears_early,
        }
    }

    /// The same leg at the server that was called last, without a place and without media.
    pub fn beside(&self) -> Self {
        Self {
            credentials: self.credentials.clone(),
            redirected_by: self.redirected_by,
            tried: self.tried,
            ..Self::new(
                self.shared.clone(),
                self.caller.clone(),
                self.to.clone(),
                None,
            )
        }
    }
}

/// True if a server is the operator's choice: the settings name it, or it is where the caller's own call came from. After a
/// redirection, which may come from the called phone, it is only the server that sent it.
pub fn is_ours(
    ip: IpAddr,
    is_configured: bool,
    outbound: Option<IpAddr>,
    redirected_by: Option<RedirectingServer>,
) -> bool {
    match redirected_by {
        None => is_configured || outbound == Some(ip),
        Some(by) => by.is_ours && by.ip == ip,
    }
}

#[cfg(test)]
mod tests {
    use super::{IpAddr, RedirectingServer, is_ours};

    #[test]
    fn servers_of_a_redirection_are_not_ours() {
        let [trunk, other] = [1, 2].map(|last| IpAddr::from([198, 51, 100, last]));
        let by = |is_ours| Some(RedirectingServer { ip: trunk, is_ours });
        for (ip, is_configured, outbound, redirected_by, expected) in [
            (trunk, true, None, None, true),
            (other, true, None, None, true),
            (trunk, false, Some(trunk), None, true),
            (other, false, Some(trunk), None, false),
            (trunk, true, Some(trunk), by(true), true),
            (other, true, Some(trunk), by(true), false),
            (other, true, Some(other), by(true), false),
            (trunk, true, Some(trunk), by(false), false),
        ] {
            let found = is_ours(ip, is_configured, outbound, redirected_by);
            assert_eq!(
                found, expected,
                "{ip} {is_configured} {outbound:?} {redirected_by:?}"
            );
        }
    }
}
