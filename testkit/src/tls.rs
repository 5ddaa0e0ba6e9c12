//! TLS for tests: servers with the certificate of [`certificate`], and clients that report the server's
//! certificate.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::certificate;

/// Accepts connections with the certificate.
pub fn acceptor() -> TlsAcceptor {
    let key = PrivateKeyDer::from_pem_slice(certificate::SERVER_KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der(certificate::SERVER)], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// The certificate in a PEM text.
pub fn der(pem: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem).unwrap()
}

/// Starts a TLS proxy in front of a plain server, for as long as the test runs. Returns its address.
pub async fn front(host: &str, plain: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((host, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                // A client that does not trust the certificate hangs up.
                let Ok(mut secured) = acceptor().accept(stream).await else {
                    return;
                };
                if let Ok(mut behind) = TcpStream::connect(plain).await {
                    let _ = tokio::io::copy_bidirectional(&mut secured, &mut behind).await;
                }
            });
        }
    });
    address
}

/// A client that trusts these authorities, each a PEM text.
pub fn client_config(authorities: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(der(authority)).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Connects to this machine, trusting either certificate.
pub async fn connect(address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
    let config = client_config(&[certificate::AUTHORITY, certificate::RENEWED]);
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(config);
    connector.connect(name, stream).await
}

pub fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let (_, connection) = stream.get_ref();
    let shown = connection.peer_certificates().unwrap();
    shown.first().unwrap().clone().into_owned()
}
