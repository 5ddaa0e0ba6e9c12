//! Tests of trunks whose settings look right and would not work.

use crate::config::telephony::tests::read;

const BEGINNING: &str = "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"scripted\"\n\
                         [[telephony.sip.trunks]]\nname = \"a\"\naddresses = [\"::1\"]\n";

fn fault(fields: &str) -> Option<String> {
    let read = read(&format!("{BEGINNING}{fields}\n"), &[]);
    read.err().map(|error| error.to_string())
}

/// A misspelt transport would mean UDP, and digest and keys would travel in clear.
#[test]
fn addresses_with_a_misspelt_transport_are_refused() {
    let account = "username = \"u\", password = \"p\"";
    for (field, toml) in [
        (
            "outbound.uri",
            "outbound = { uri = \"ADDRESS\" }".to_owned(),
        ),
        (
            "register.registrar",
            format!("register = {{ registrar = \"ADDRESS\", {account} }}"),
        ),
        (
            "register.proxy",
            format!("register = {{ registrar = \"x\", proxy = \"ADDRESS\", {account} }}"),
        ),
    ] {
        for (address, words) in [
            (
                "sip:x;transport=tsl",
                "has transport=tsl, which is no transport; write transport=udp, transport=tcp or transport=tls",
            ),
            (
                "sip:x;transprot=tls",
                "has the unknown parameter transprot; only transport is known",
            ),
            ("tls://x;transport=udp", "has the transport twice"),
            ("sip:x?transport=tls", "has a question mark"),
            ("http://x", "must be like sip.example.com"),
        ] {
            let fault = fault(&toml.replace("ADDRESS", address)).expect(address);
            let expected = format!("trunk 1: {field} {words}");
            assert!(fault.contains(&expected), "{address}: {fault}");
        }
        for address in ["sip:x;transport=tls", "sip:x;transport=TCP", "sips:x", "x"] {
            assert_eq!(fault(&toml.replace("ADDRESS", address)), None, "{address}");
        }
    }
}

#[test]
fn an_outbound_proxy_may_be_a_loose_router() {
    let register = "register = { registrar = \"x\", proxy = \"sip:y;lr\", username = \"u\", password = \"p\" }";
    assert_eq!(fault(register), None);
}

#[test]
fn persons_see_an_account_only_if_there_is_one() {
    let from = |more: &str| format!("outbound = {{ uri = \"sip:x\", from = \"account\"{more} }}");
    let without = fault(&from("")).expect("no account");
    assert!(
        without.contains("trunk 1: outbound.from is \"account\", and the trunk has no account"),
        "{without}"
    );
    let register = "register = { registrar = \"x\", username = \"u\", password = \"p\" }\n";
    for accepted in [
        from(", username = \"u\", password = \"p\""),
        register.to_owned() + &from(""),
        from("").replace("account", "did"),
    ] {
        assert_eq!(fault(&accepted), None, "{accepted}");
    }
    // The digest of callers is no account of ours.
    let callers = "username = \"u\"\npassword = \"hush-hush-hush\"\n";
    assert!(fault(&(callers.to_owned() + &from(""))).is_some());
}
