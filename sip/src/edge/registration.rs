//! Registration with trunks (RFC 3261, 10), kept up as long as the edge runs, with backoff after failures.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{
    digest::answers::{ChallengeAnswers, UnansweredChallenge},
    message::{Method, NameAddr, SipRequest, SipResponse, Uri},
    resolution::SipTarget,
    settings::RegisterSettings,
    shared::{Shared, token},
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
    #[error("the registrar refuses with status {0}")]
    Refused(u16),
}

impl RegistrationError {
    /// Another server of the registrar may do better.
    fn is_of_the_server(&self) -> bool {
        match self {
            Self::Silent => true,
            Self::Refused(status) => *status == 408 || (500..600).contains(status),
            Self::Address(_) | Self::Unreachable(_) | Self::Credentials(_) | Self::Challenge(_) => {
                false
            }
        }
    }

    /// The registrar's status, if that is why.
    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(status) | Self::Credentials(status) | Self::Challenge(status) => {
                Some(*status)
            }
            Self::Address(_) | Self::Unreachable(_) | Self::Silent => None,
        }
    }
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
    flow: Option<Flow>,
    /// Servers of `hop`, as the DNS named them last. Any of them may send calls.
    targets: VecDeque<SipTarget>,
    /// Servers of the registrar behind a proxy. They may send calls, too.
    behind_proxy: VecDeque<SipTarget>,
    /// The addresses of the registrar's own name, which may send calls, too.
    named: Vec<IpAddr>,
    call_id: String,
    tag: String,
    number: u32,
    answers: ChallengeAnswers,
    expires: u32,
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
            targets: VecDeque::new(),
            behind_proxy: VecDeque::new(),
            named: Vec::new(),
            tag: token(),
            number: 0,
            answers: ChallengeAnswers::default(),
            expires: register.expires_seconds,
        })
    }

    /// Looks the servers up again, because carriers change them. Keeps the last ones if the DNS names none.
    async fn look_up(&mut self) -> Result<(), RegistrationError> {
        let shared = self.shared.clone();
        match shared.targets(self.hop(), self.flow.as_ref()).await {
            Ok(found) if !found.is_empty() => self.targets = found,
            Err(error) if self.targets.is_empty() => {
                return Err(RegistrationError::Unreachable(error));
            }
            Ok(_) | Err(_) => {}
        }
        if self.proxy.is_some()
            && let Ok(found) = shared.targets(&self.registrar, None).await
            && !found.is_empty()
        {
            self.behind_proxy = found;
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

    /// Registers at the first server that can. `expires` of 0 unregisters, `None` changes nothing. Returns the seconds granted.
    pub async fn once(&mut self, expires: Option<u32>) -> Result<u32, RegistrationError> {
        // The last REGISTER of all does not wait for the DNS.
        if expires != Some(0) || self.targets.is_empty() {
            self.look_up().await?;
        }
        let (shared, hop) = (self.shared.clone(), self.hop().clone());
        let mut targets = self.targets.clone();
        let mut failed = None;
        let is_connected = |flow: &&Flow| flow.is_reliable() && flow.is_open();
        let mut connected = self.flow.as_ref().filter(is_connected).cloned();
        loop {
            let flow = match connected.take() {
                Some(flow) => flow,
                None => {
                    let known = self.flow.as_ref();
                    let flow = shared.flow_among(&mut targets, &hop.host, known).await;
                    flow.map_err(|error| failed.unwrap_or(RegistrationError::Unreachable(error)))?
                }
            };
            let is_this = |target: &SipTarget| {
                (target.transport, target.address) == (flow.transport, flow.remote)
            };
            targets.retain(|target| !is_this(target));
            self.flow = Some(flow.clone());
            match self.at(&flow, expires).await {
                // Another server may be able to (RFC 3263, 4.3).
                Err(error) if error.is_of_the_server() => {
                    self.answers = ChallengeAnswers::default();
                    failed = Some(error);
                }
                done => return done,
            }
        }
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
                200..300 => return Ok(self.granted(&response, expires.unwrap_or_default())),
                401 | 407 => {
                    self.challenged(&response)?;
                    refused = RegistrationError::Credentials(response.status);
                }
                423 => {
                    let least = response
                        .headers
                        .get("Min-Expires")
                        .and_then(|least| least.parse().ok());
                    let least: u32 = least.ok_or(RegistrationError::Refused(423))?;
                    self.expires = least.min(EXPIRES_MAX);
                    expires = expires.map(|_| self.expires);
                    refused = RegistrationError::Refused(423);
                }
                status => return Err(RegistrationError::Refused(status)),
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

    /// Seconds granted: those of our Contact in the response, else those of Expires.
    fn granted(&self, response: &SipResponse, asked: u32) -> u32 {
        let (host, port) = match &self.flow {
            Some(flow) => self.shared.reached_at(flow),
            None => return asked,
        };
        let ours = response
            .headers
            .list("Contact")
            .iter()
            .filter_map(|contact| contact.parse::<NameAddr>().ok())
            .find(|contact| contact.uri.host == host && contact.uri.port == Some(port))
            .and_then(|contact| contact.param("expires")?.parse().ok());
        let all = response
            .headers
            .get("Expires")
            .and_then(|all| all.parse().ok());
        ours.or(all).unwrap_or(asked).min(EXPIRES_MAX)
    }

    /// Sends keep-alives until the next renewal; false if the connection is lost before.
    async fn stay(&self, until: Instant) -> bool {
        while let Some(flow) = &self.flow {
            let next = (Instant::now() + PING).min(until);
            tokio::time::sleep_until(next).await;
            if next >= until {
                return true;
            }
            if !flow.send(b"\r\n\r\n") {
                return false;
            }
        }
        true
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
                    self.stay(asked + renewed_after(granted)).await;
                }
                Err(error) => {
                    let tried = self.addresses().next();
                    let tried = tried.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                    let failed = (error.status(), &*error.to_string());
                    let refusals = &self.shared.refusals;
                    refusals.note_registration(trunk, failed, tried, pause.as_secs());
                    // The registrar keeps an earlier registration until it expires.
                    self.flow = None;
                    let jitter = Duration::from_millis(u64::from(rand::random::<u16>() % 1_000));
                    tokio::time::sleep(pause + jitter).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_who_refuses() {
        for (error, words) in [
            (
                RegistrationError::Credentials(401),
                "the registrar refuses username or password",
            ),
            (
                RegistrationError::Credentials(407),
                "a proxy before the registrar refuses username or password",
            ),
            (
                RegistrationError::Challenge(407),
                "a proxy before the registrar asks for other credentials than a digest with MD5 or SHA-256",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn renewals_come_in_time() {
        for (granted, after) in [
            (3600, 3540),
            (160, 120),
            (120, 84),
            (60, 24),
            (30, 10),
            (4, 2),
            (1, 1),
            (0, 1),
        ] {
            assert_eq!(
                renewed_after(granted),
                Duration::from_secs(after),
                "{granted}"
            );
        }
    }
}
