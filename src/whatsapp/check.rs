//! The check of a WhatsApp trunk: what Meta knows of it, and what callers from Meta will find here.

use std::path::Path;

use dikala_sip::settings::SipSettings;
use rustls::pki_types::UnixTime;

use super::{
    Graph, MetaServer,
    certificate::{CertificateFindings, examine},
    changes, others, server_of, token,
};
use crate::config::{WhatsAppAccount, WhatsAppTrunk};

/// The remedy for settings that differ.
const SETUP: &str = "run `dikala whatsapp setup`";

/// Checks a trunk: Meta accepts the certificate for the host that it was given, SIP and SDES are on, and the password is Meta's.
/// Returns that in words, with what should be done soon.
///
/// Errors: everything that is wrong, in words.
pub async fn check(
    trunk: &WhatsAppTrunk,
    sip: &SipSettings,
    extra_ca: Option<&Path>,
) -> Result<String, String> {
    let told = |what: String| format!("trunk {}: {what}", trunk.name);
    let server = server_of(sip).map_err(told)?;
    let host = &server.hostname;
    let CertificateFindings {
        mut faults,
        warnings,
    } = match &sip.tls {
        Some(files) => examine(&files.certificate, host, extra_ca, UnixTime::now()),
        None => CertificateFindings::default(),
    };
    if let Some(fault) = file_fault(trunk) {
        faults.push(fault);
    } else if trunk.effective_password().is_none() {
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
        faults.extend(warnings);
        return Err(told(faults.join("; ")));
    }
    let well = match unchecked {
        None => format!(
            "Meta calls {server} with SDES, the certificate is for {host}, and the password is Meta's"
        ),
        Some(why) => format!(
            "the certificate is for {host}, and there is a password; whether Meta has SIP and SDES on, this host and this password \
             was not checked, because {why}"
        ),
    };
    let all: Vec<String> = std::iter::once(well).chain(warnings).collect();
    Ok(told(all.join("; ")))
}

/// The fault of the account's file, and its remedy.
fn file_fault(trunk: &WhatsAppTrunk) -> Option<String> {
    let fault = trunk.fault.as_ref()?;
    let effect = match trunk.is_out_of_service() {
        true => "it is out of service: ",
        false => "",
    };
    Some(format!(
        "{effect}account_file {:?} {fault}; it must belong to the user of the service; if it is damaged, {SETUP}, which replaces it, \
         and restart",
        trunk.file
    ))
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
    let others = others(&settings, server).into_iter();
    let others: Vec<String> = others.map(ToString::to_string).collect();
    if settings.has(server) && !others.is_empty() {
        faults.push(format!(
            "Meta calls {} too, which another app has set, and ends a call when any server hangs up; clear it with a token of that app",
            others.join(", ")
        ));
    }
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
