//! The demo's telephone: a SIP address on this machine that any softphone can call.

use std::net::{SocketAddr, UdpSocket};

use super::demo::DID;
use crate::{
    app::App,
    cli::CliError,
    config::{ConfigOrigin, Layers},
};

/// The default SIP port, which softphones expect.
const PREFERRED: &str = "127.0.0.1:5060";

/// Enables the telephony bridge for callers on this machine unless it was disabled. Uses a model if an API key is
/// set.
pub(super) fn configure(layers: &mut Layers) -> Result<(), CliError> {
    let is_unsaid = |layers: &Layers, key: &str| *layers.origin(key) == ConfigOrigin::Default;
    if is_unsaid(layers, "telephony.enabled") {
        layers.set_from_command("telephony.enabled", "true")?;
    } else if layers
        .text("telephony.enabled")
        .eq_ignore_ascii_case("false")
    {
        return Ok(());
    }
    if is_unsaid(layers, "telephony.sip.listen") {
        // Uses a free port if another program or another demo listens on the default one.
        let is_free = UdpSocket::bind(PREFERRED).is_ok();
        let address = if is_free { PREFERRED } else { "127.0.0.1:0" };
        layers.set_from_command("telephony.sip.listen", &format!("udp://{address}"))?;
    }
    if is_unsaid(layers, "telephony.sip.trunks") {
        // Softphones on this machine send from any of its addresses. A loopback listener is reached by no other
        // machine.
        let addresses = if is_loopback(&layers.text("telephony.sip.listen")) {
            ["0.0.0.0/0", "::/0"]
        } else {
            ["127.0.0.0/8", "::1"]
        };
        layers.set_trunk_from_command("this machine", &addresses)?;
    }
    if layers.wants_stand_in() {
        layers.set_from_command("telephony.voice.provider", "scripted")?;
    }
    Ok(())
}

/// The lines of the welcome that describe the telephone.
pub(super) fn welcome(app: &App, layers: &Layers) -> String {
    let Some(telephony) = app.telephony() else {
        return String::new();
    };
    let voice = match layers.text("telephony.voice.provider").as_str() {
        "scripted" => "a test voice answers; with GEMINI_API_KEY set, a model does",
        _ => "Gemini answers, which nobody has tried with Google's own service yet",
    };
    let addresses = telephony.addresses();
    let lines = addresses.iter().filter_map(|address| {
        let (transport, address) = address.split_once("://")?;
        let transport = match transport {
            "udp" => String::new(),
            other => format!(";transport={other}"),
        };
        Some(format!(
            "\n  telephone  sip:{DID}@{}{transport}",
            dialled(address)?
        ))
    });
    let lines: String = lines.collect();
    format!("{lines}\n             call it with any softphone: {voice}")
}

/// True if every listener is on a loopback address.
fn is_loopback(listen: &str) -> bool {
    listen
        .split([',', ' '])
        .filter_map(|one| one.split_once("://"))
        .all(|(_, address)| {
            let address = address.parse::<SocketAddr>();
            address.is_ok_and(|address| address.ip().is_loopback())
        })
}

fn dialled(address: &str) -> Option<SocketAddr> {
    let address: SocketAddr = address.parse().ok()?;
    if !address.ip().is_unspecified() {
        return Some(address);
    }
    Some(SocketAddr::from(([127, 0, 0, 1], address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(variables: &[(&str, &str)]) -> Layers {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut layers = Layers::load(None, variables).expect("it is right");
        configure(&mut layers).expect("it is configured");
        layers
    }

    #[test]
    fn only_who_says_false_has_no_telephone() {
        let enabled = "DIKALA_TELEPHONY__ENABLED";
        for variables in [&[][..], &[(enabled, "true")], &[(enabled, "TRUE")]] {
            let layers = configured(variables);
            assert!(
                layers
                    .text("telephony.enabled")
                    .eq_ignore_ascii_case("true")
            );
            assert_eq!(layers.text("telephony.voice.provider"), "scripted");
            let listen = layers.text("telephony.sip.listen");
            assert!(listen.starts_with("udp://127.0.0.1:"), "{listen}");
            assert!(layers.text("telephony.sip.trunks").contains("this machine"));
        }
        let layers = configured(&[(enabled, "False")]);
        assert_eq!(layers.text("telephony.sip.trunks"), "");
    }

    #[test]
    fn a_model_answers_where_there_is_one() {
        for (variable, value) in [
            ("GEMINI_API_KEY", "k"),
            ("DIKALA_TELEPHONY__GEMINI__URL", "ws://127.0.0.1:9/x"),
        ] {
            let layers = configured(&[(variable, value)]);
            assert_eq!(
                layers.text("telephony.voice.provider"),
                "gemini",
                "{variable}"
            );
        }
    }

    // A softphone sends from its network card's address even to 127.0.0.1.
    #[test]
    fn all_of_this_machine_may_call_and_nobody_else() {
        for (listen, all) in [
            (None, true),
            (Some("udp://127.0.0.1:0,tcp://[::1]:0"), true),
            (Some("udp://127.0.0.1:0,tcp://0.0.0.0:0"), false),
        ] {
            let variable = listen.map(|listen| {
                let name = "DIKALA_TELEPHONY__SIP__LISTEN".to_owned();
                (name, listen.to_owned())
            });
            let mut layers = Layers::load(None, variable).expect("it is right");
            configure(&mut layers).expect("it is configured");
            let trunk = layers.text("telephony.sip.trunks");
            assert_eq!(trunk.contains("0.0.0.0/0"), all, "{listen:?}: {trunk}");
            assert_eq!(trunk.contains("127.0.0.0/8"), !all, "{listen:?}: {trunk}");
        }
    }
}
