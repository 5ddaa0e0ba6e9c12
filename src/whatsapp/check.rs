//! The check of a WhatsApp trunk: what Meta knows of it, and what callers from Meta will find here.

use std::path::Path;

use dikala_sip::settings::{SipSettings, TlsFiles};
use rustls::{
    client::verify_server_name,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};

use super::{Graph, MetaServer, changes, server_of, token};
use crate::config::{WhatsAppAccount, WhatsAppTrunk};

/// The remedy for settings that differ.
const SETUP: &str = "run `dikala whatsapp setup`";

/// Checks a trunk: the certificate is for the host that Meta was given, SIP and SDES are on, and the password is Meta's.
///
/// Errors: everything that is wrong, in words.
pub async fn check(
    trunk: &WhatsAppTrunk,
    sip: &SipSettings,
    extra_ca: Option<&Path>,
) -> Result<String, String> {
    let told = |what: String| format!("trunk {}: {what}", trunk.name);
    let server = server_of(sip).map_err(told)?;
    let mut faults = Vec::new();
    let tls = sip.tls.as_ref();
    faults.extend(tls.and_then(|files| certificate_fault(files, &server.hostname)));
    if trunk.effective_password().is_none() {
        faults.push(format!("there is no password for SIP; {SETUP}"));
    }
    let unchecked = match meta(trunk, &server, extra_ca).await {
        Ok(found) => {
            faults.extend(found);
            None
        }
        Err(why) => Some(why),
    };
    if !faults.is_empty() {
        return Err(told(faults.join("; ")));
    }
    let host = &server.hostname;
    Ok(told(match unchecked {
        None => format!(
            "Meta calls {server} with SDES, the certificate is for {host}, and the password is Meta's"
        ),
        Some(why) => format!(
            "the certificate is for {host}, and there is a password; whether Meta has SIP and SDES on, this host and this password \
             was not checked, because {why}"
        ),
    }))
}

/// Compares with Meta's settings; the faults, or why nothing could be compared.
async fn meta(
    trunk: &WhatsAppTrunk,
    server: &MetaServer,
    extra_ca: Option<&Path>,
) -> Result<Vec<String>, String> {
    let token = token().ok_or("WHATSAPP_TOKEN is not set")?;
    let Some(account) = &trunk.account else {
        return Err(format!(
            "the id of the number at Meta is not known; {SETUP}"
        ));
    };
    let WhatsAppAccount {
        phone_number_id,
        graph_url,
        ..
    } = account;
    let graph = Graph::new(graph_url, phone_number_id, token, extra_ca);
    let settings = match graph {
        Ok(graph) => match graph.check_number(&trunk.number).await {
            Ok(()) => graph.settings().await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let mut faults = Vec::new();
    if !settings.is_enabled() {
        faults
            .push("calls are switched off at Meta; switch them on in WhatsApp Manager".to_owned());
    }
    let wrong = changes(&settings, server);
    faults.extend(wrong.iter().flat_map(|(_, wrong)| wrong).map(|wrong| {
        format!(
            "Meta's {} is {}, not {}; {SETUP}",
            wrong.setting, wrong.before, wrong.after
        )
    }));
    let (ours, theirs) = (trunk.effective_password(), settings.password(server));
    if theirs.is_none() {
        faults.push(format!("Meta shows no password for SIP; {SETUP}"));
    } else if ours.is_some() && ours != theirs {
        faults.push(match trunk.password {
            Some(_) => "password is not the one that Meta has; remove it from the configuration, and run `dikala whatsapp setup`".to_owned(),
            None => format!("the stored password is not the one that Meta has; {SETUP}"),
        });
    }
    Ok(faults)
}

/// Why Meta would not accept our certificate for this host. A file that cannot be read is another check's.
fn certificate_fault(files: &TlsFiles, host: &str) -> Option<String> {
    let first = CertificateDer::pem_file_iter(&files.certificate)
        .ok()?
        .next()?
        .ok()?;
    let name = ServerName::try_from(host.to_owned()).ok()?;
    let parsed = ParsedCertificate::try_from(&first).ok()?;
    let verified = verify_server_name(&parsed, &name);
    verified.err().map(|_| {
        format!(
            "the certificate {:?} is not for {host}, the host that Meta calls; take one for that name, from an authority that the web \
             trusts",
            files.certificate
        )
    })
}
