//! TLS to a PostgreSQL server, by rustls.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::settings::{Roots, Security, Settings};
use crate::error::{ErrorKind, StoreError};

/// Makes connections to servers secure.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// What the settings ask for. Certificates are read now, so that a file that is not there is told at once.
    pub(super) fn new(settings: &Settings) -> Result<Self, StoreError> {
        let provider = Arc::new(ring::default_provider());
        let rules = match (settings.security, &settings.roots) {
            (Security::VerifyCa | Security::Require, Some(roots)) => {
                Check::Signed(CheckedNames::Any, trusted(roots, &provider)?)
            }
            (Security::VerifyCa, None) => {
                Check::Signed(CheckedNames::Any, trusted(&Roots::System, &provider)?)
            }
            (Security::VerifyFull, roots) => {
                let roots = roots.as_ref().unwrap_or(&Roots::System);
                Check::Signed(CheckedNames::This, trusted(roots, &provider)?)
            }
            (Security::Disable | Security::Prefer | Security::Require, _) => Check::Nothing,
        };
        let unusable = |error: rustls::Error| failed(format!("TLS: {error}"));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { check: rules, provider }))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls { config: Arc::new(config) })
    }
}

fn failed(message: String) -> StoreError {
    StoreError::new(ErrorKind::OpenFailed, message)
}

/// Who may have signed a certificate.
#[derive(Debug)]
struct Trusted {
    verifier: Arc<WebPkiServerVerifier>,
    /// Certificates that are trusted themselves: a server may present the very one it was given.
    themselves: Vec<CertificateDer<'static>>,
}

fn trusted(roots: &Roots, provider: &Arc<CryptoProvider>) -> Result<Trusted, StoreError> {
    let (certificates, place) = match roots {
        Roots::System => (rustls_native_certs::load_native_certs().certs, "the system".to_string()),
        Roots::File(path) => {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            (read.map_err(|error| failed(format!("sslrootcert {path}: {error}")))?, path.clone())
        }
    };
    let mut store = RootCertStore::empty();
    let (taken, _) = store.add_parsable_certificates(certificates.iter().cloned());
    if taken == 0 {
        return Err(failed(format!("sslrootcert: {place} has no certificate that can be trusted")));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
        .build()
        .map_err(|error| failed(format!("sslrootcert: {error}")))?;
    let themselves = if *roots == Roots::System { Vec::new() } else { certificates };
    Ok(Trusted { verifier, themselves })
}

/// Whether the host must be the one the certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckedNames {
    Any,
    This,
}

#[derive(Debug)]
enum Check {
    /// The connection is encrypted; to whom is not asked.
    Nothing,
    Signed(CheckedNames, Trusted),
}

#[derive(Debug)]
struct Verifier {
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Check::Signed(names, trusted) = &self.check else {
            return Ok(ServerCertVerified::assertion());
        };
        if trusted.themselves.iter().any(|known| known.as_ref() == certificate.as_ref()) {
            if *names == CheckedNames::This {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        let verified = trusted.verifier.verify_server_cert(certificate, between, name, ocsp, now);
        match verified {
            // The name is looked at last: the signatures were found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if *names == CheckedNames::Any => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Secured<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, io::Error> {
        // A host without a name is a socket of this machine, where the handshake is never asked for.
        let name = ServerName::try_from(domain.to_string()).ok();
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.config)), name })
    }
}

/// A handshake that was not begun.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> TlsConnect<S> for Handshake {
    type Stream = Secured<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| io::Error::other("the host has no name to secure"))?;
            self.connector.connect(name, stream).await.map(|stream| Secured(Box::new(stream)))
        })
    }
}

/// An encrypted connection.
pub(super) struct Secured<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secured<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
