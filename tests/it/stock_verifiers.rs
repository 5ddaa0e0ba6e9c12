//! The Standard Webhooks libraries accept deliveries of the real binary, using the programs of the tenants'
//! documentation.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::support::prelude::*;

/// The folder in which `.ci/standard-webhooks` has installed the libraries.
const FOLDER: &str = "DIKALA_VERIFIERS";
/// If set to 1, missing libraries fail the test instead of skipping it.
const REQUIRED: &str = "DIKALA_REQUIRE_VERIFIERS";
const PATH: &str = "/stock";

fn folder() -> Option<PathBuf> {
    let folder = env::var_os(FOLDER).map(PathBuf::from);
    if folder.is_none() {
        let note =
            format!("no {FOLDER}, see .ci/standard-webhooks; {REQUIRED}=1 makes this a failure");
        assert!(env::var(REQUIRED).as_deref() != Ok("1"), "{note}");
        println!("skipped: {note}");
    }
    folder
}

/// The documentation's programs, with their libraries on the path.
fn programs(folder: &Path) -> [Command; 2] {
    let verify = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify");
    let mut python = Command::new(folder.join("venv/bin/python"));
    python.arg(verify.join("standard.py"));
    let mut node = Command::new("node");
    node.arg(verify.join("standard.cjs"))
        .env("NODE_PATH", folder.join("node_modules"));
    [python, node]
}

/// The verifiers' outputs for a delivery with this body.
fn verdicts(folder: &Path, secret: &str, delivery: &ReceivedRequest, body: &[u8]) -> [String; 2] {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    programs(folder).map(|mut program| {
        let mut child = program
            .arg(secret)
            .args(names.map(|name| delivery.header(name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(body).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

#[rstest]
#[actix_web::test]
async fn stock_verifiers_accept_what_is_sent(#[values(Sqlite, Postgres)] store: StoreKind) {
    let Some(folder) = folder() else { return };
    let world = world!(store);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let url = receiver.url(PATH);
    let webhook = tenant.subscribe(&url, &["call.transcript"], SECRET).await;
    let bridge = tenant.bridge(Socket).await;
    let send = async |count: usize| {
        let id = bridge.talk(&tenant.did).await;
        let summary = json!({"callId": id, "summary": "Kopi — dua ☕"});
        bridge.ok("call.transcript", summary).await;
        receiver.wait_for(PATH, count).await.remove(count - 1)
    };

    let first = send(1).await;
    let changed = first.text().replace("dua", "tiga");
    let new = "a secret that follows the first: ключ";
    for (secret, body, expected) in [
        (SECRET, &*first.body, "valid"),
        (SECRET, changed.as_bytes(), "invalid"),
        (new, &first.body, "invalid"),
    ] {
        assert_eq!(verdicts(&folder, secret, &first, body), [expected; 2]);
    }

    let rotate = format!("/webhooks/{webhook}/rotate-secret");
    tenant
        .api
        .post(&rotate, json!({"secret": new}))
        .await
        .expect(200);
    let second = send(2).await;
    for secret in [SECRET, new] {
        assert_eq!(
            verdicts(&folder, secret, &second, &second.body),
            ["valid"; 2]
        );
        let changed = second.text().replace("dua", "tiga");
        assert_eq!(
            verdicts(&folder, secret, &second, changed.as_bytes()),
            ["invalid"; 2]
        );
    }
    assert_eq!(
        verdicts(&folder, "neither of them", &second, &second.body),
        ["invalid"; 2]
    );
}
