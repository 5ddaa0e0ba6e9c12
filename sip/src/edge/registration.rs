//! Registration with trunks (RFC 3261, 10), kept up as long as the edge runs, with backoff after failures.

mod failed_servers;
mod granted;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, interval_at, timeout_at},
};

use self::failed_servers::FailedServers;
use crate::{
    digest::answers::{ChallengeAnswers, UnansweredChallenge},
    message::{Host, Method, SipRequest, SipResponse, Uri},
    resolution::SipTarget,
    settings::RegisterSettings,
    shared::{Shared, is_certificate_fault, keep_secured, server_of, token},
    transport::Flow,
};

/// The first and the longest pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Seconds left at a renewal. A silent server takes 32 s.
const EARLY_MIN: u32 = 36;
/// A day: the longest registration, whatever the registrar grants. The configuration allows no longer one to be asked for.
const EXPIRES_MAX: u32 = 86_400;
/// Interval of keep-alives (two line ends), which keep NAT bindings and connections open.
const PING: Duration = Duration::from_secs(25);
/// Keep-alives between two look-ups of the registrar's addresses: fifty seconds.
const PINGS_BEFORE_LOOK_UP: u32 = 2;
/// Why no server is tried.
const ASKED_TO_WAIT: &str = "each of its servers asked us to wait (Retry-After)";
/// REGISTERs of one try: the first, and those after challenges of a proxy and the registrar, stale nonces, and a longer time.
const REQUESTS_MAX: usize = 6;

/// Why a registration failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error("`{0}` is no SIP address; write sip:host[:port][;transport=tcp]")]
    Address(String),
    #[error("the registrar cannot be reached: {0}")]
    Unreachable(std::io::Error),
    #[error("the registrar does not answer")]
    Silent,
    /// With this status.
    #[error("{} refuses username or password", challenger(*.0))]
    Credentials(u16),
    /// With this status.
    #[error("{} asks for other credentials than a digest with MD5 or SHA-256", challenger(*.0))]
    Challenge(u16),
    /// With this status. It may ask us to wait for this long.
    #[error("the registrar refuses with status {0}")]
    Refused(u16, Option<Duration>),
    #[error(
        "the registrar answers 200, but registers for 0 seconds; ask its operator whether the account may register from here"
    )]
    NotGranted,
}

impl RegistrationError {
    /// Another server of the registrar may do better.
    fn is_of_the_server(&self) -> bool {
        match self {
            Self::Silent => true,
            Self::Refused(status, _) => *status == 408 || (500..600).contains(status),
            Self::Address(_)
            | Self::Unreachable(_)
            | Self::Credentials(_)
            | Self::Challenge(_)
            | Self::NotGranted => false,
        }
    }

    /// The time for which the server asked us to wait.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(_, retry_after) => *retry_after,
            _ => None,
        }
    }

    /// The registrar's status, if that is why.
    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(status, _) | Self::Credentials(status) | Self::Challenge(status) => {
                Some(*status)
            }
            Self::Address(_) | Self::Unreachable(_) | Self::Silent | Self::NotGranted => None,
        }
    }
}

fn is_connected(flow: &Flow) -> bool {
    flow.is_reliable() && flow.is_open()
}

fn challenger(status: u16) -> &'static str {
    match status {
        407 => "a proxy before the registrar",
        _ => "the registrar",
    }
}

/// One registration.
#[derive(Debug)]
pub struct Registration {
    shared: Arc<Shared>,
    register: RegisterSettings,
    registrar: Uri,
    proxy: Option<Uri>,
    /// The address of record.
    record: Uri,
    /// The route to the server that was tried last; `None` after a failure of all.
    flow: Option<Flow>,
    /// Servers of `hop`, as the DNS named them last. Any of them may send calls.
    targets: Vec<SipTarget>,
    failed: FailedServers,
    /// Servers of the registrar behind a proxy. They may send calls, too.
    behind_proxy: Vec<SipTarget>,
    /// The addresses of the registrar's own name, which may send calls, too.
    named: Vec<IpAddr>,
    call_id: String,
    tag: String,
    number: u32,
    answers: ChallengeAnswers,
    expires: u32,
    /// Interval of keep-alives.
    ping: Duration,
}

impl Registration {
    pub fn new(
        shared: Arc<Shared>,
        register: &RegisterSettings,
    ) -> Result<Self, RegistrationError> {
        let address = |text: &String| {
            let wrong = |()| RegistrationError::Address(text.clone());
            text.parse::<Uri>().map_err(wrong)
        };
        let registrar = address(&register.registrar)?;
        let proxy = register.proxy.as_ref().map(address).transpose()?;
        let domain = || RegistrationError::Address(register.domain.clone().unwrap_or_default());
        let record = register.address_of_record().ok_or_else(domain)?;
        Ok(Self {
            call_id: format!("{}@{}", token(), shared.user_agent.name),
            shared,
            register: register.clone(),
            registrar,
            proxy,
            record,
            flow: None,
            targets: Vec::new(),
            failed: FailedServers::default(),
            behind_proxy: Vec::new(),
            named: Vec::new(),
            tag: token(),
            number: 0,
            answers: ChallengeAnswers::default(),
            expires: register.expires_seconds,
            ping: PING,
        })
    }

    /// Looks the servers up again, because carriers change them. Keeps the last ones if the DNS names none.
    async fn look_up(&mut self) -> Result<(), RegistrationError> {
        let shared = self.shared.clone();
        match shared.targets(self.hop(), self.flow.as_ref()).await {
            Ok(found) if !found.is_empty() => self.targets = found.into(),
            Err(error) if self.targets.is_empty() => {
                return Err(RegistrationError::Unreachable(error));
            }
            Ok(_) | Err(_) => {}
        }
        if self.proxy.is_some()
            && let Ok(found) = shared.targets(&self.registrar, None).await
            && !found.is_empty()
        {
            self.behind_proxy = found.into();
        }
        let named = shared.addresses_of(&self.registrar.host).await;
        if !named.is_empty() {
            self.named = named;
        }
        Ok(())
    }

    /// Addresses that may send calls.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let reached = self.flow.as_ref().map(|flow| flow.remote.ip());
        let named = self.named.iter().copied();
        let servers = self.targets.iter().chain(&self.behind_proxy);
        reached
            .into_iter()
            .chain(named)
            .chain(servers.map(|server| server.address.ip()))
    }

    /// Servers in the order in which they are tried. The `current` one comes first if the DNS still names it, its connection is
    /// open, or we unregister there.
    fn to_try(&self, current: Option<&Flow>, is_last: bool) -> VecDeque<SipTarget> {
        let mut servers = self.targets.clone();
        if let Some(flow) = current {
            let current = server_of(flow);
            if is_last || is_connected(flow) || servers.contains(&current) {
                servers.retain(|server| *server != current);
                servers.insert(0, current);
            }
        }
        self.failed.order(servers, Instant::now())
    }

    /// Registers at the first server that can. `expires` of 0 unregisters, `None` changes nothing. Returns the seconds granted.
    pub async fn once(&mut self, expires: Option<u32>) -> Result<u32, RegistrationError> {
        let is_last = expires == Some(0);
        // The last REGISTER of all does not wait for the DNS.
        if !is_last || self.targets.is_empty() {
            self.look_up().await?;
        }
        let host = self.hop().host.clone();
        let current = self.flow.clone();
        let mut targets = self.to_try(current.as_ref(), is_last);
        let mut failed = None;
        while let Some(server) = targets.pop_front() {
            let flow = match self.reach(server, &host, current.as_ref()).await {
                Ok(flow) => flow,
                Err(error) => {
                    keep_secured(&mut targets, &error);
                    failed.get_or_insert(RegistrationError::Unreachable(error));
                    continue;
                }
            };
            self.flow = Some(flow.clone());
            if current.as_ref().map(server_of) != Some(server) {
                // The nonce of one server means nothing to another.
                self.answers = ChallengeAnswers::default();
            }
            let done = self.at(&flow, expires).await;
            let Err(error) = done else {
                self.failed.forget(server);
                return done;
            };
            // Another server may be able to (RFC 3263, 4.3).
            let is_next = error.is_of_the_server();
            if is_next || error.retry_after().is_some() {
                let now = Instant::now();
                self.failed.note(server, error.retry_after(), now);
            }
            if !is_next {
                return Err(error);
            }
            failed = Some(error);
        }
        Err(failed.unwrap_or_else(|| {
            RegistrationError::Unreachable(match self.targets.is_empty() {
                true => io::ErrorKind::NotFound.into(),
                false => io::Error::other(ASKED_TO_WAIT),
            })
        }))
    }

    /// The route to a server; the connection to the `current` one is used again.
    async fn reach(
        &mut self,
        server: SipTarget,
        host: &Host,
        current: Option<&Flow>,
    ) -> io::Result<Flow> {
        let here = current.filter(|flow| is_connected(flow) && server_of(flow) == server);
        if let Some(flow) = here {
            return Ok(flow.clone());
        }
        let flow = self.shared.flow_to(server, host, current).await;
        // After a fault of its certificate the server stays the first, so that none without TLS is tried before it.
        if let Err(error) = &flow
            && !is_certificate_fault(error)
        {
            self.failed.note(server, None, Instant::now());
        }
        flow
    }

    /// Sends a REGISTER, and again with the credentials of everybody who challenges it.
    async fn at(&mut self, flow: &Flow, expires: Option<u32>) -> Result<u32, RegistrationError> {
        let (mut expires, mut refused) = (expires, RegistrationError::Silent);
        for _ in 0..REQUESTS_MAX {
            let request = self.request(flow, expires);
            let mut answers = self.shared.ask(request, flow);
            let response = loop {
                let response = answers.recv().await.ok_or(RegistrationError::Silent)?;
                if response.status >= 200 {
                    break response;
                }
            };
            match response.status {
                200..300 => {
                    let asked = expires.unwrap_or_default();
                    let granted = self.granted(&response, flow, asked);
                    return match (asked, granted) {
                        (1.., 0) => Err(RegistrationError::NotGranted),
                        _ => Ok(granted),
                    };
                }
                401 | 407 => {
                    self.challenged(&response)?;
                    refused = RegistrationError::Credentials(response.status);
                }
                423 => {
                    let least = response
                        .headers
                        .get("Min-Expires")
                        .and_then(|least| least.parse().ok());
                    let least: u32 = least.ok_or(RegistrationError::Refused(423, None))?;
                    self.expires = least.min(EXPIRES_MAX);
                    expires = expires.map(|_| self.expires);
                    refused = RegistrationError::Refused(423, None);
                }
                status => {
                    let retry_after = failed_servers::retry_after(&response.headers);
                    return Err(RegistrationError::Refused(status, retry_after));
                }
            }
        }
        Err(refused)
    }

    /// The address that requests go to.
    fn hop(&self) -> &Uri {
        self.proxy.as_ref().unwrap_or(&self.registrar)
    }

    fn request(&mut self, flow: &Flow, expires: Option<u32>) -> SipRequest {
        self.number += 1;
        let ours = &self.record;
        let target = Uri {
            user: String::new(),
            ..self.registrar.clone()
        };
        let mut request = SipRequest::new(Method::Register, target);
        if let Some(route) = self.register.route() {
            request.headers.push("Route", &route);
        }
        for (name, value) in [
            ("Max-Forwards", "70".to_owned()),
            ("From", format!("<{ours}>;tag={}", self.tag)),
            ("To", format!("<{ours}>")),
            ("Call-ID", self.call_id.clone()),
            ("CSeq", format!("{} REGISTER", self.number)),
        ] {
            request.headers.push(name, &value);
        }
        if let Some(expires) = expires {
            let contact = self.shared.contact_of(&self.record.user, flow);
            request
                .headers
                .push("Contact", &format!("{contact};expires={expires}"));
            request.headers.push("Expires", &expires.to_string());
        }
        let credentials = &self.register.credentials;
        self.answers.prove(&mut request, credentials, &token());
        request
    }

    fn challenged(&mut self, response: &SipResponse) -> Result<(), RegistrationError> {
        let status = response.status;
        self.answers.accept(response).map_err(|why| {
            self.answers = ChallengeAnswers::default();
            match why {
                UnansweredChallenge::Refused => RegistrationError::Credentials(status),
                UnansweredChallenge::Unknown => RegistrationError::Challenge(status),
            }
        })
    }

    fn granted(&self, response: &SipResponse, flow: &Flow, asked: u32) -> u32 {
        let (host, port) = self.shared.reached_at(flow);
        let ours = Uri::sip(&self.record.user, host, Some(port));
        let granted = granted::seconds(&response.headers, &ours);
        granted.unwrap_or(asked).min(EXPIRES_MAX)
    }

    /// Sends keep-alives until the next renewal, or until the connection is lost. The registrar's names are looked up again
    /// meanwhile: calls from their new addresses are admitted.
    async fn stay(&mut self, trunk: &str, until: Instant) {
        let mut pings = interval_at(Instant::now() + self.ping, self.ping);
        for sent in 1_u32.. {
            if timeout_at(until, pings.tick()).await.is_err() {
                return;
            }
            let flow = self.flow.as_ref();
            if !flow.is_some_and(|flow| flow.send(b"\r\n\r\n")) {
                return;
            }
            if sent.is_multiple_of(PINGS_BEFORE_LOOK_UP) {
                // Without an answer the last addresses stay.
                let _ = timeout_at(until, self.look_up()).await;
                self.shared.registrars.extend(trunk, self.addresses());
            }
        }
    }

    /// Registers and renews until `closing`, then unregisters.
    pub async fn keep(mut self, trunk: String, mut closing: watch::Receiver<bool>) {
        let shared = self.shared.clone();
        tokio::select! {
            () = self.renew(&trunk) => {}
            _ = closing.changed() => {
                if shared.registrars.remove(&trunk) {
                    let _ = self.once(Some(0)).await;
                }
            }
        }
    }

    async fn renew(&mut self, trunk: &str) {
        let mut pause = PAUSE;
        loop {
            let (asked, expires) = (Instant::now(), self.expires);
            match self.once(Some(expires)).await {
                Ok(granted) => {
                    pause = PAUSE;
                    let until = asked + Duration::from_secs(granted.into());
                    self.shared.registrars.add(trunk, self.addresses(), until);
                    tracing::info!(trunk, seconds = granted, "registered");
                    self.stay(trunk, asked + renewed_after(granted)).await;
                }
                Err(error) => {
                    let tried = self.addresses().next();
                    let tried = tried.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                    let failed = (error.status(), &*error.to_string());
                    let refusals = &self.shared.refusals;
                    let wait = self.failed.wait(&self.targets, Instant::now()).max(pause);
                    let again = (wait + Duration::from_millis(999)).as_secs();
                    refusals.note_registration(trunk, failed, tried, again);
                    // The registrar keeps an earlier registration until it expires.
                    self.flow = None;
                    let jitter = Duration::from_millis(u64::from(rand::random::<u16>() % 1_000));
                    tokio::time::sleep(wait + jitter).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}

/// Time of the renewal: well before the registration expires, with time for a silent server and the next one.
fn renewed_after(granted: u32) -> Duration {
    let early = (granted / 4).clamp(EARLY_MIN, 60).min(granted / 3 * 2);
    Duration::from_secs(u64::from(granted.saturating_sub(early).max(1)))
}
