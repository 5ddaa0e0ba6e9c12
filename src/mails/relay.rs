//! The operator's mail server (RFC 5321), with one connection per mail and a time limit for each step. Logs show only
//! the code of its answers, because the text may repeat the address.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use dikala_entities::{MailId, Millis};
use lettre::{
    Address, Message,
    message::{
        Mailbox,
        header::{ContentType, HeaderName, HeaderValue},
    },
    transport::smtp::{
        Error,
        authentication::{Credentials, Mechanism},
        client::{AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters},
        extension::ClientId,
    },
};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use url::Host;

use super::{Reached, letter::MailText, smtp_socket::SmtpSocket};
use crate::config::MailServer;

/// Longest time for one mail, from the connection to the last answer.
const MAIL_MAX: Duration = Duration::from_secs(20);
/// Longest time for `QUIT` after the mail was accepted.
const QUIT_MAX: Duration = Duration::from_secs(2);
const SMTP_PORT: u16 = 587;
const SMTPS_PORT: u16 = 465;
/// The server asks for a password or refuses ours; the mail is not at fault.
const OWN_FAULTS: [u16; 4] = [530, 534, 535, 538];

const UNREACHABLE: &str = "the server cannot be reached, or ended the connection";

/// The use of TLS on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    /// From the first byte.
    AtOnce,
    /// STARTTLS, required.
    Upgraded,
    /// STARTTLS, if the server offers it.
    IfOffered,
    /// Never, on the loopback interface.
    Never,
}

/// The operator's mail server.
pub struct Relay {
    host: String,
    port: u16,
    tls: Tls,
    parameters: TlsParameters,
    credentials: Option<Credentials>,
    from: Mailbox,
    hello: ClientId,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// The mail server's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("outbound.extra_ca_file cannot be read: {0}")]
    Authorities(std::io::Error),
    #[error("TLS to the mail server cannot be set up: {0}")]
    Tls(Error),
}

/// The outcome of an attempt.
pub(super) enum SendOutcome {
    Sent,
    /// The server will never accept it.
    Refused(String),
    /// The server may accept it later.
    Later(String, Reached),
}

impl Relay {
    /// The configured server. `authorities` is a PEM file of additional certificate authorities; `base` is the base
    /// URL of links.
    pub fn new(
        server: &MailServer,
        authorities: Option<&Path>,
        base: &str,
    ) -> Result<Self, RelayError> {
        let url = &server.url;
        let host = url.host_str().unwrap_or_default();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = url
            .password()
            .map(|password| Credentials::new(plain(url.username()), plain(password)));
        let is_implicit = url.scheme() == "smtps";
        let tls = match credentials {
            _ if is_implicit => Tls::AtOnce,
            _ if is_loopback(&host) => Tls::Never,
            Some(_) => Tls::Upgraded,
            None => Tls::IfOffered,
        };
        let mut parameters =
            TlsParameters::builder(host.clone()).certificate_store(CertificateStore::WebpkiRoots);
        if let Some(path) = authorities {
            let pem = std::fs::read(path).map_err(RelayError::Authorities)?;
            let trusted = Certificate::from_pem(&pem).map_err(RelayError::Tls)?;
            parameters = parameters.add_root_certificate(trusted);
        }
        let usual = if is_implicit { SMTPS_PORT } else { SMTP_PORT };
        Ok(Self {
            port: url.port().unwrap_or(usual),
            host,
            tls,
            parameters: parameters.build().map_err(RelayError::Tls)?,
            credentials,
            from: server.from.clone(),
            hello: hello(base),
        })
    }

    /// Sends a mail with the given date.
    pub(super) async fn send(&self, id: MailId, letter: &MailText, now: Millis) -> SendOutcome {
        let Some(message) = self.message(id, letter, now) else {
            return SendOutcome::Refused("the address is none that a mail can go to".to_owned());
        };
        match timeout(MAIL_MAX, self.deliver(&message)).await {
            Ok(outcome) => outcome,
            Err(_) => SendOutcome::Later("the server took too long".to_owned(), Reached::No),
        }
    }

    fn message(&self, id: MailId, letter: &MailText, now: Millis) -> Option<Message> {
        let (address, name) = &letter.to;
        let to: Address = address.parse().ok()?;
        let date = SystemTime::UNIX_EPOCH + Duration::from_millis(now.as_u64());
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(Some(undecoded(name)), to))
            .subject(undecoded(&letter.subject))
            .date(date)
            // The same at each attempt, so that recipients can recognize a duplicate after a crash.
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(letter.text.expose().to_owned())
            .ok()
    }

    async fn deliver(&self, message: &Message) -> SendOutcome {
        let mut connection = match self.connect().await {
            Ok(connection) => connection,
            Err(reason) => return SendOutcome::Later(reason, Reached::No),
        };
        let text = message.formatted();
        match connection.send(message.envelope(), &text).await {
            Ok(_) => {
                // The mail is accepted, whatever happens to `QUIT`.
                let _ = timeout(QUIT_MAX, connection.quit()).await;
                SendOutcome::Sent
            }
            Err(error) => judged(&error),
        }
    }

    /// A connection that is ready for a mail, or the reason why there is none.
    async fn connect(&self) -> Result<AsyncSmtpConnection, String> {
        let mut connection = match self.tls {
            Tls::AtOnce => self.connect_encrypted().await,
            Tls::Upgraded | Tls::IfOffered | Tls::Never => {
                let socket = SmtpSocket::connect(&self.host, self.port).await;
                let socket = Box::new(socket.map_err(|_| UNREACHABLE.to_owned())?);
                AsyncSmtpConnection::connect_with_transport(socket, &self.hello).await
            }
        }
        .map_err(|error| told(&error))?;
        self.sign_in(&mut connection)
            .await
            .map_err(|error| told(&error))?;
        Ok(connection)
    }

    async fn connect_encrypted(&self) -> Result<AsyncSmtpConnection, Error> {
        let server = (self.host.as_str(), self.port);
        let tls = Some(self.parameters.clone());
        AsyncSmtpConnection::connect_tokio1(server, None, &self.hello, tls, None).await
    }

    /// Encrypts the connection where that is still to be done, and authenticates.
    async fn sign_in(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Error> {
        let upgrade = match self.tls {
            Tls::AtOnce | Tls::Never => false,
            Tls::Upgraded => true,
            Tls::IfOffered => connection.can_starttls(),
        };
        if upgrade {
            connection
                .starttls(self.parameters.clone(), &self.hello)
                .await?;
        }
        if let Some(credentials) = &self.credentials {
            connection
                .auth(&[Mechanism::Plain, Mechanism::Login], credentials)
                .await?;
        }
        Ok(())
    }
}

/// Breaks up `=?`, so that no mail program decodes the text as encoded words (RFC 2047). Tenants choose names in it.
fn undecoded(text: &str) -> String {
    text.replace("=?", "= ?")
}

fn is_loopback(host: &str) -> bool {
    match Host::parse(host) {
        Ok(Host::Domain(name)) => name == "localhost",
        Ok(Host::Ipv4(address)) => address.is_loopback(),
        Ok(Host::Ipv6(address)) => address.is_loopback(),
        Err(_) => host == "::1",
    }
}

/// The name in `EHLO`: the host of the service's URL.
fn hello(base: &str) -> ClientId {
    let url = url::Url::parse(base).ok();
    match url.as_ref().and_then(url::Url::host) {
        Some(Host::Domain(name)) => ClientId::Domain(name.to_owned()),
        Some(Host::Ipv4(address)) => ClientId::Ipv4(address),
        Some(Host::Ipv6(address)) => ClientId::Ipv6(address),
        None => ClientId::default(),
    }
}

/// Classifies a failed attempt.
fn judged(error: &Error) -> SendOutcome {
    let code = error.status().map(u16::from);
    match code {
        Some(code) if error.is_permanent() && !OWN_FAULTS.contains(&code) => {
            SendOutcome::Refused(told(error))
        }
        Some(_) => SendOutcome::Later(told(error), Reached::Yes),
        // A retry would fail the same way.
        None if error.is_client() => SendOutcome::Refused(told(error)),
        None => SendOutcome::Later(told(error), Reached::No),
    }
}

/// A description in our words.
fn told(error: &Error) -> String {
    match error.status() {
        Some(code) => format!("the server answered {code}"),
        None if error.is_tls() => "TLS with the server failed".to_owned(),
        None if error.is_client() => {
            "the server lacks what it takes: TLS, a way to sign in, or addresses that are not ASCII"
                .to_owned()
        }
        None if error.is_response() => {
            "the server ended the connection, or answered what is no answer".to_owned()
        }
        None => UNREACHABLE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        net::Ipv4Addr,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use dikala_entities::Secret;
    use dikala_testkit::{Encryption, Postbox, certificate};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    fn server(url: &str) -> MailServer {
        MailServer {
            url: url.parse().expect("an address"),
            from: "dikala@voice.example".parse().expect("a sender"),
        }
    }

    fn relay(url: &str) -> Relay {
        Relay::new(&server(url), None, "https://voice.example").expect("a relay")
    }

    #[test]
    fn passwords_are_not_told_without_tls_but_to_this_machine() {
        for (url, tls, port) in [
            ("smtps://mail.example", Tls::AtOnce, 465),
            ("smtps://localhost:4650", Tls::AtOnce, 4650),
            ("smtp://me:word@mail.example", Tls::Upgraded, 587),
            ("smtp://me:word@10.0.0.7:25", Tls::Upgraded, 25),
            ("smtp://mail.example", Tls::IfOffered, 587),
            ("smtp://me:word@localhost", Tls::Never, 587),
            ("smtp://me:word@127.0.0.2:25", Tls::Never, 25),
            ("smtp://me:word@[::1]:25", Tls::Never, 25),
            ("smtp://[fd00::1]:25", Tls::IfOffered, 25),
        ] {
            let relay = relay(url);
            assert_eq!((relay.tls, relay.port), (tls, port), "{url}");
            assert!(!relay.host.contains('['), "{url}");
            assert!(!format!("{relay:?}").contains("word"));
        }
    }

    #[test]
    fn a_name_that_looks_encoded_is_shown_as_it_was_written() {
        let forged = "=?utf-8?q?Your_account_is_locked?=";
        for name in [forged.to_owned(), format!("Toko Bu Sari – {forged}")] {
            let letter = MailText {
                to: ("sari@shop.example".to_owned(), name.clone()),
                subject: format!("{name} invites you"),
                text: Secret::new("text"),
            };
            let message = relay("smtp://mail.example").message(MailId::new(NOW), &letter, NOW);
            let text = String::from_utf8(message.expect("a mail").formatted()).expect("ASCII");
            assert!(!text.contains("=?utf-8?q?Your"), "{text}");
        }
    }

    async fn send(postbox: &Postbox, tls: Tls, trusts: bool) -> SendOutcome {
        send_to(postbox.address.port(), tls, trusts).await
    }

    async fn send_to(port: u16, tls: Tls, trusts: bool) -> SendOutcome {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = folder.path().join("ca.pem");
        std::fs::write(&authority, certificate::AUTHORITY).expect("a file");
        let url = format!("smtp://me:word@localhost:{port}");
        let authority = trusts.then_some(authority.as_path());
        let relay = Relay::new(&server(&url), authority, "http://127.0.0.1:8080");
        let relay = Relay {
            tls,
            ..relay.expect("a relay")
        };
        let letter = MailText {
            to: ("sari@example.com".to_owned(), "Sari".to_owned()),
            subject: "Grüße".to_owned(),
            text: Secret::new("Hallo Sari,\n\nschöne Grüße"),
        };
        relay.send(MailId::new(NOW), &letter, NOW).await
    }

    #[actix_web::test]
    async fn a_connection_is_encrypted_before_anything_is_said() {
        let postbox = Postbox::start_on(0, Encryption::Offered);
        assert!(matches!(
            send(&postbox, Tls::Upgraded, true).await,
            SendOutcome::Sent
        ));
        assert!(matches!(
            send(&postbox, Tls::IfOffered, true).await,
            SendOutcome::Sent
        ));
        for letter in postbox.letters() {
            assert!(
                letter.was_encrypted && letter.signed_in.is_some(),
                "{letter:?}"
            );
            assert_eq!(letter.text, "Hallo Sari,\n\nschöne Grüße");
            assert_eq!(letter.header("date"), "Fri, 15 Jan 2027 08:00:00 +0000");
        }
        for (tls, trusts) in [(Tls::Upgraded, false), (Tls::AtOnce, true)] {
            let outcome = send(&postbox, tls, trusts).await;
            assert!(matches!(outcome, SendOutcome::Later(_, Reached::No)));
        }
        let plain = Postbox::start();
        let outcome = send(&plain, Tls::Upgraded, true).await;
        assert!(matches!(outcome, SendOutcome::Later(_, Reached::No)));
        assert!(matches!(
            send(&plain, Tls::IfOffered, true).await,
            SendOutcome::Sent
        ));
        assert_eq!((postbox.letters().len(), plain.letters().len()), (2, 1));
    }

    /// Stands between the client and `server`, and adds `injected` to the answer to `STARTTLS`, where nothing is encrypted yet.
    async fn meddler(server: &Postbox, injected: &'static [u8]) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = server.address;
        tokio::spawn(async move {
            let (client, _) = listener.accept().await?;
            let (mut requests, mut answers) = client.into_split();
            let (mut served, mut serving) = TcpStream::connect(server).await?.into_split();
            let asked = Arc::new(AtomicBool::new(false));
            let has_asked = Arc::clone(&asked);
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                while let Ok(size @ 1..) = requests.read(&mut piece).await {
                    if piece.starts_with(b"STARTTLS") {
                        asked.store(true, Ordering::Release);
                    }
                    serving.write_all(&piece[..size]).await?;
                }
                io::Result::Ok(())
            });
            let mut piece = [0; 4096];
            while let size @ 1.. = served.read(&mut piece).await? {
                let mut answer = piece[..size].to_vec();
                if has_asked.swap(false, Ordering::Acquire) {
                    answer.extend_from_slice(injected);
                }
                answers.write_all(&answer).await?;
            }
            io::Result::Ok(())
        });
        port
    }

    #[actix_web::test]
    async fn what_was_answered_before_encryption_confirms_no_mail() {
        let postbox = Postbox::start_on(0, Encryption::Offered);
        let port = meddler(&postbox, b"").await;
        let outcome = send_to(port, Tls::Upgraded, true).await;
        assert!(matches!(outcome, SendOutcome::Sent));
        assert_eq!(postbox.letters().len(), 1);
        let injected = b"250-localhost\r\n250 AUTH PLAIN LOGIN\r\n235 in\r\n250 from\r\n250 to\r\n\
                         354 go on\r\n250 taken\r\n221 bye\r\n";
        let port = meddler(&postbox, injected).await;
        let outcome = send_to(port, Tls::Upgraded, true).await;
        assert!(matches!(outcome, SendOutcome::Later(_, Reached::No)));
        assert_eq!(postbox.letters().len(), 1);
    }

    /// Without a limit, the client would take it for the twenty seconds of a mail.
    #[actix_web::test]
    async fn an_answer_without_an_end_is_given_up_after_its_limit() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let sent = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.expect("a client");
            let mut sent = 0;
            while client.write_all(&[b'x'; 4096]).await.is_ok() {
                sent += 4096;
            }
            sent
        });
        let outcome = send_to(port, Tls::Upgraded, true).await;
        assert!(matches!(outcome, SendOutcome::Later(_, Reached::No)));
        // The rest lies in the buffers of the two sockets.
        let sent = sent.await.expect("a number");
        assert!(sent < 16 << 20, "{sent} bytes");
    }
}
