//! Tests of trunks with the preset WhatsApp, and of the stored accounts.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use dikala_sip::settings::{SessionTimer, TransferMethod, TrunkPreset};

use super::*;
use crate::config::{ConfigError, Layers, Settings, WhatsAppAccount, telephony::tests::read};

const TLS: &str = "[telephony.sip]\nlisten = [\"tls://127.0.0.1:5061\"]\ntls_certificate_file = \"/a.pem\"\n\
                   tls_key_file = \"/a.key\"\n";
const USUAL: &str = "name = \"wa\"\npreset = \"whatsapp\"\naddresses = [\"203.0.113.0/24\"]\n\
                     number = \"+622150001000\"\n";

fn trunks(tables: &[&str]) -> String {
    let tables = tables.iter();
    let tables: String = tables
        .map(|fields| format!("[[telephony.sip.trunks]]\n{fields}\n"))
        .collect();
    format!("{TLS}{tables}")
}

/// The only trunk of a configuration with these fields.
fn only(fields: &str) -> Trunk {
    let (_, settings) = read(&trunks(&[fields]), &[]).expect(fields);
    settings.bridge_keys().sip.trunks.remove(0)
}

#[test]
fn the_preset_brings_metas_rules() {
    let trunk = only(&format!("{USUAL}password = \"short\"\nmax_calls = 7\n"));
    assert_eq!(trunk.preset, Some(TrunkPreset::WhatsApp));
    assert_eq!(trunk.session_timer, SessionTimer::Off);
    assert_eq!(trunk.transfer, TransferMethod::Bridge);
    assert_eq!(trunk.number.as_deref(), Some("+622150001000"));
    assert_eq!(trunk.max_calls, Some(7));
    assert!(
        trunk.credentials.is_none(),
        "it is no phone with a password"
    );
    assert_eq!(trunk.outbound.uri.as_deref(), Some(META));
    let credentials = trunk.outbound.credentials.expect("a digest");
    assert_eq!(credentials.username, "622150001000");
    assert_eq!(credentials.password, "short");
    // The preset's own values may be written, and calls of our own may go elsewhere.
    let fields = format!(
        "{USUAL}session_timer = \"off\"\ntransfer = \"bridge\"\ntransfer_trunk = \"wa\"\n\
         outbound = {{ uri = \"tls://127.0.0.1:5099\" }}\n"
    );
    let trunk = only(&fields);
    assert_eq!(trunk.transfer_trunk.as_deref(), Some("wa"));
    let uri = trunk.outbound.uri.as_deref();
    assert_eq!(uri, Some("sip:127.0.0.1:5099;transport=tls"));
    assert!(trunk.outbound.credentials.is_none());
}

#[test]
fn what_does_not_fit_the_preset_is_said() {
    let carrier = "name = \"carrier\"\naddresses = [\"::1\"]\n";
    let of = |fields: &str| format!("{USUAL}{fields}\n");
    for (tables, expected) in [
        (vec![of("username = \"u\"")], "username is not for"),
        (vec![of("prefix = \"+62\"")], "prefix is not for"),
        (
            vec![of("answer_order = \"ours\"")],
            "answer_order is not for",
        ),
        (
            vec![of("outbound = { username = \"u\", password = \"p\" }")],
            "outbound.username is not for",
        ),
        (vec![of("session_timer = \"auto\"")], "it is off"),
        (vec![of("transfer = \"refer\"")], "it is bridge"),
        (
            vec![of("transfer = \"bridge\"")],
            "transfer_trunk is not set",
        ),
        (
            vec![of("outbound = { uri = \"sip:wa.meta.vc\" }")],
            "must be over TLS",
        ),
        (
            vec!["name = \"wa\"\npreset = \"whatsapp\"\nnumber = \"+622150001000\"".to_owned()],
            "addresses must be set",
        ),
        (
            vec!["name = \"wa\"\npreset = \"whatsapp\"\naddresses = [\"::1\"]".to_owned()],
            "number must be set",
        ),
        (
            vec![of("").replace("whatsapp", "signal")],
            "it must be whatsapp",
        ),
        (
            vec![of("transfer_trunk = \"carrier\"")],
            "no trunk has this name",
        ),
        (
            vec![of("transfer_trunk = \"carrier\""), carrier.to_owned()],
            "no place for calls to persons",
        ),
        (
            vec![format!(
                "{carrier}transfer = \"refer\"\ntransfer_trunk = \"carrier\""
            )],
            "transfer is not bridge",
        ),
        (
            vec![format!("{carrier}account_file = \"/a\"")],
            "account_file is for",
        ),
    ] {
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let error = read(&trunks(&tables), &[]).expect_err(expected);
        assert!(error.0.contains(expected), "{tables:?}\n{error}");
    }
    let plain = format!("[[telephony.sip.trunks]]\n{USUAL}");
    let error = read(&plain, &[]).expect_err("no TLS");
    assert!(error.0.contains("add tls://0.0.0.0:5061"), "{error}");
}

fn load(file: &Path) -> Result<Settings, ConfigError> {
    Settings::new(&Layers::load(Some(file), [])?)
}

#[test]
fn the_stored_password_is_used_unless_the_configuration_has_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dikala.toml");
    let write = |fields: &str| fs::write(&file, trunks(&[fields])).expect("written");
    let password = |settings: &Settings| {
        let trunk = settings.bridge_keys().sip.trunks.remove(0);
        trunk.outbound.credentials.map(|of| of.password)
    };
    write(USUAL);
    let settings = load(&file).expect("it is right");
    assert_eq!(password(&settings), None);
    let trunk = settings.whatsapp().remove(0);
    let expected = folder.path().join("whatsapp-622150001000.json");
    assert_eq!(trunk.file, expected);

    let account = WhatsAppAccount {
        phone_number_id: "427".to_owned(),
        graph_url: "https://graph.facebook.com".to_owned(),
        password: Some("stored".to_owned()),
    };
    for _ in 0..2 {
        account.write(&trunk.file).expect("written");
        let mode = fs::metadata(&trunk.file)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let settings = load(&file).expect("it is right");
    assert_eq!(password(&settings).as_deref(), Some("stored"));
    assert_eq!(settings.whatsapp()[0].account, Some(account.clone()));
    assert!(!format!("{settings:?} {account:?}").contains("stored"));

    write(&format!("{USUAL}password = \"mine\"\n"));
    let settings = load(&file).expect("it is right");
    assert_eq!(password(&settings).as_deref(), Some("mine"));

    let elsewhere = folder.path().join("elsewhere.json");
    write(&format!("{USUAL}account_file = {elsewhere:?}\n"));
    let settings = load(&file).expect("it is right");
    assert_eq!(password(&settings), None);
    assert_eq!(settings.whatsapp()[0].file, elsewhere);

    // A relative name is one beside the configuration.
    account.write(&elsewhere).expect("written");
    write(&format!("{USUAL}account_file = \"elsewhere.json\"\n"));
    let settings = load(&file).expect("it is right");
    assert_eq!(password(&settings).as_deref(), Some("stored"));
    assert_eq!(settings.whatsapp()[0].file, elsewhere);
}

/// A damaged file concerns its trunk only, and not even that if the trunk has the password itself.
#[test]
fn an_account_that_cannot_be_read_puts_its_trunk_out_of_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dikala.toml");
    let (damaged, unreadable) = (
        folder.path().join("damaged.json"),
        folder.path().join("folder.json"),
    );
    fs::write(&damaged, "{\"password\": \"stored\"").expect("written");
    fs::create_dir(&unreadable).expect("a folder");
    let carrier = "name = \"carrier\"\naddresses = [\"::1\"]\n";
    for (name, why) in [
        ("damaged.json", "line 1"),
        ("folder.json", "cannot be read"),
    ] {
        for (password, is_out) in [("", true), ("password = \"mine\"\n", false)] {
            let fields = format!("{USUAL}account_file = \"{name}\"\n{password}");
            fs::write(&file, trunks(&[&fields, carrier])).expect("written");
            let settings = load(&file).expect("the program starts");
            let of = settings.bridge_keys().sip.trunks;
            let found: Vec<bool> = of.iter().map(|trunk| trunk.is_out_of_service).collect();
            assert_eq!(found, [is_out, false], "{name} {password}");
            let trunk = settings.whatsapp().remove(0);
            assert_eq!(trunk.is_out_of_service(), is_out);
            let fault = trunk.fault.expect(why);
            assert!(fault.contains(why), "{fault}");
            assert!(
                !fault.contains("stored") && !fault.contains(name),
                "{fault}"
            );
        }
    }
}
