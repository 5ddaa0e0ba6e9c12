//! Outgoing TLS: to registrars and trunks with certificates of the operator's own authority.

use std::{net::SocketAddr, sync::Arc};

use dikala_sip::{
    leg::LegEvent,
    settings::{Credentials, RegisterSettings, Trunk},
    try_registrar,
};
use dikala_testkit::tls;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    programs::kamailio,
    support::{
        CallBehaviour, ScriptedPhone, TestEdge, USER_AGENT, eventually, header, need, offer, port,
        privately, publicly, trunk,
    },
};

/// A certificate for `localhost` with `CA:TRUE`, and its key.
const SELF_SIGNED: &[u8] = include_bytes!("certificates/self_signed.pem");
const SELF_SIGNED_KEY: &[u8] = include_bytes!("certificates/self_signed.key");

/// A TLS server at an address of this machine.
pub struct TlsServer {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsServer {
    pub async fn at(host: &str) -> Self {
        Self {
            listener: TcpListener::bind((host, 0)).await.unwrap(),
            acceptor: tls::acceptor(),
        }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// A server whose certificate is self-signed, as OpenSSL makes it without further options.
    async fn self_signed() -> Self {
        let key = PrivateKeyDer::from_pem_slice(SELF_SIGNED_KEY).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![tls::der(SELF_SIGNED)], key)
            .unwrap();
        Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            ..Self::at("127.0.0.1").await
        }
    }

    /// `None` if the next connection refuses the certificate.
    pub async fn shakes_hands(&self) -> Option<()> {
        self.secured().await.map(drop)
    }

    async fn secured(&self) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
        let (stream, edge) = self.listener.accept().await.unwrap();
        Some((self.acceptor.accept(stream).await.ok()?, edge))
    }

    /// The next connection of the edge.
    pub async fn accept(&self) -> ScriptedPhone {
        let (stream, edge) = self.secured().await.unwrap();
        let local = stream.get_ref().0.local_addr().unwrap();
        ScriptedPhone::over("TLS", Box::new(stream), local, edge)
    }
}

fn register(registrar: String, password: &str) -> RegisterSettings {
    RegisterSettings {
        registrar,
        credentials: Credentials {
            username: "dikala".to_owned(),
            password: password.to_owned(),
        },
        expires_seconds: 120,
        ..RegisterSettings::default()
    }
}

fn registering(registrar: String) -> Trunk {
    Trunk {
        register: Some(register(registrar, "rahasia")),
        ..trunk()
    }
}

/// Challenges a REGISTER and accepts its credentials.
async fn registered(registrar: &mut ScriptedPhone) {
    let first = registrar.expect("REGISTER ").await;
    let demand = "WWW-Authenticate: Digest realm=\"trunk\", nonce=\"n\", qop=\"auth\"\r\n";
    let challenge = registrar
        .response(&first, "401 Unauthorized", "r", "")
        .replace("Contact:", &format!("{demand}Contact:"));
    registrar.send(&challenge).await;
    let second = registrar.expect("REGISTER ").await;
    let proof = header(&second, "Authorization").unwrap();
    assert!(proof.contains("username=\"dikala\""), "{proof}");
    assert!(header(&second, "Via").unwrap().starts_with("SIP/2.0/TLS"));
    let contact = header(&second, "Contact").unwrap().to_owned();
    assert!(contact.contains(";transport=tls"), "{contact}");
    let taken = registrar.response(&second, "200 OK", "r", "");
    let taken = taken.replace("Contact: ", &format!("Contact: {contact}, "));
    registrar.send(&taken).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn we_register_and_hand_over_through_tls_that_is_trusted() {
    for secure in ["sip:localhost:PORT;transport=tls", "sips:localhost:PORT"] {
        let server = TlsServer::at("127.0.0.1").await;
        let registrar = secure.replace("PORT", &server.port().to_string());
        let manner = CallBehaviour::Transfer("+62811111".to_owned());
        let bench = TestEdge::trusting(privately(), manner, 10, |sip| {
            sip.trunks = vec![registering(registrar.clone())];
        })
        .await;
        let mut trunk = server.accept().await;
        registered(&mut trunk).await;
        eventually("it is registered", || {
            bench.edge.statistics().registered_trunks == 1
        })
        .await;

        // A call over the connection is transferred over it.
        trunk.call("", &offer(40_000)).await;
        let invite = trunk.expect("INVITE ").await;
        let to = registrar.replace("localhost", "+62811111@localhost");
        assert!(
            invite.starts_with(&format!("INVITE {to} SIP/2.0")),
            "{invite}"
        );
        let accepted = trunk.response(&invite, "200 OK", "person", &offer(40_002));
        trunk.send(&accepted).await;
        trunk.expect("ACK ").await;
        eventually("it stands", || bench.is_joined()).await;

        // For a call over UDP, a connection is opened for the second leg.
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.call("", &offer(40_004)).await;
        let mut second = server.accept().await;
        let invite = second.expect("INVITE ").await;
        assert!(header(&invite, "Via").unwrap().starts_with("SIP/2.0/TLS"));
        let busy = second.response(&invite, "486 Busy Here", "person", "");
        second.send(&busy).await;
        second.expect("ACK ").await;
        let words = "the other side did not take the call (status 486)".to_owned();
        eventually("the task hears", || {
            bench.saw(&LegEvent::Transfer(Err(words.clone())))
        })
        .await;
        phone.hang_up().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_that_nobody_vouches_for_is_not_spoken() {
    let server = Arc::new(TlsServer::at("127.0.0.1").await);
    let at = server.port();
    let accepting = server.clone();
    tokio::spawn(async move { while accepting.secured().await.is_none() {} });
    let registrar = |host: &str| register(format!("sip:{host}:{at};transport=tls"), "rahasia");
    let refused = try_registrar("jkt", &registrar("localhost"), &[], USER_AGENT, publicly()).await;
    let words = refused.unwrap_err().to_string();
    let expected = "the certificate of localhost is signed by no authority that is trusted";
    assert!(words.contains(expected), "{words}");

    // Another host: the certificate is for this machine's usual names.
    let server = Arc::new(TlsServer::at("127.0.0.2").await);
    let at = server.port();
    tokio::spawn(async move { while server.secured().await.is_none() {} });
    let other = register(format!("sip:127.0.0.2:{at};transport=tls"), "rahasia");
    let refused = try_registrar("jkt", &other, &[], USER_AGENT, privately()).await;
    let words = refused.unwrap_err().to_string();
    let expected = "the certificate of 127.0.0.2 is for localhost, ";
    assert!(words.contains(expected), "{words}");
    assert!(!words.contains("DnsName"), "{words}");
}

/// It is trusted, but no TLS library of the web accepts an authority as a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_self_signed_authority_as_a_server_is_explained() {
    let server = TlsServer::self_signed().await;
    let registrar = format!("sip:localhost:{};transport=tls", server.port());
    tokio::spawn(async move { while server.secured().await.is_none() {} });
    let trusting = tls::client_config(&[SELF_SIGNED]);
    let registrar = register(registrar, "rahasia");
    let refused = try_registrar("jkt", &registrar, &[], USER_AGENT, trusting).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("CA:FALSE"), "{words}");
    assert!(!words.contains("OtherError"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn we_register_at_kamailio_behind_tls() {
    if !need("kamailio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = port();
    let _kamailio = kamailio(folder.path(), at);
    let tls_config = privately();
    let hosts: &[&str] = if std::net::TcpListener::bind("[::1]:0").is_ok() {
        &["localhost", "[::1]"]
    } else {
        &["localhost"]
    };
    for host in hosts {
        let bare = if host.starts_with('[') {
            "::1"
        } else {
            "127.0.0.1"
        };
        // Its own TLS is a separate package.
        let front = tls::front(bare, ([127, 0, 0, 1], at).into()).await;
        let registrar = format!("sip:{host}:{};transport=tls", front.port());
        // Waits until kamailio listens.
        eventually("kamailio listens", || {
            std::net::TcpStream::connect(("127.0.0.1", at)).is_ok()
        })
        .await;
        let asked = register(registrar.clone(), "rahasia");
        try_registrar("jkt", &asked, &[], USER_AGENT, tls_config.clone())
            .await
            .unwrap();
        let wrong = register(registrar, "salah");
        let refused = try_registrar("jkt", &wrong, &[], USER_AGENT, tls_config.clone()).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("username or password"), "{words}");
    }
}
