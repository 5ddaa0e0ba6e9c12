//! Calls from WhatsApp, as Meta's gateway sends them, with the real service.

use std::fs;

use dikala_telephony::voice::Phrase;
use dikala_testkit::{
    certificate,
    meta::{MetaCall, MetaCaller},
};

use super::tls::StandaloneBridge;
use crate::support::prelude::*;

/// Milliseconds of a step, and steps of what is compared: 1.5 s, and of them the first syllable.
const STEP_MS: usize = 5;
const COMPARED: usize = 300;
const SYLLABLE: usize = 60;
/// Steps that are looked at one by one, and the mean loudness below which they are silence.
const CHUNK: usize = 10;
const QUIET: u64 = 300;

/// The mean loudness of each step.
fn loudness(samples: &[i16], rate: usize) -> Vec<u64> {
    let step = rate * STEP_MS / 1_000;
    let mean = |step: &[i16]| {
        let sum: u64 = step.iter().map(|it| u64::from(it.unsigned_abs())).sum();
        sum / step.len() as u64
    };
    samples.chunks_exact(step).map(mean).collect()
}

/// True if what was heard begins as what was said does: its first 0.3 s are there, as loud as they should be.
fn begins_as(heard: &[i16], said: &[i16]) -> bool {
    let (heard, said) = (loudness(heard, 16_000), loudness(said, 24_000));
    let begins = said.iter().position(|step| *step > QUIET).unwrap();
    let said = &said[begins..begins + COMPARED];
    let difference = |part: &&[u64]| {
        let pairs = part.iter().zip(said);
        pairs.map(|(one, other)| one.abs_diff(*other)).sum::<u64>()
    };
    // Silence before what was heard, so that a missing beginning has its place.
    let heard = [vec![0; SYLLABLE], heard].concat();
    let Some(best) = heard.windows(COMPARED).min_by_key(difference) else {
        return false;
    };
    let chunks = |steps: &'_ [u64]| -> Vec<u64> {
        let chunks = steps[..SYLLABLE].chunks_exact(CHUNK);
        chunks.map(|chunk| chunk.iter().sum()).collect()
    };
    let is_there = |(there, wanted): (u64, u64)| {
        let is_quiet = wanted < QUIET * CHUNK as u64;
        is_quiet || (there * 2 > wanted && there < wanted * 2)
    };
    let mut pairs = chunks(best).into_iter().zip(chunks(said));
    difference(&best) * 2 < said.iter().sum() && pairs.all(is_there)
}

#[test]
fn a_beginning_that_is_cut_off_is_noticed() {
    let (_, said) = Phrase::Greeting.spoken("en");
    let at_16 = |samples: &[i16]| -> Vec<i16> {
        samples
            .chunks_exact(3)
            .flat_map(|it| [it[0], it[1]])
            .collect()
    };
    let heard = [vec![0; 16_000], at_16(&said)].concat();
    assert!(begins_as(&heard, &said));
    let begins = said.iter().position(|it| it.unsigned_abs() > 600).unwrap();
    for cut_ms in [120, 200, 300] {
        let cut = at_16(&said[begins + cut_ms * 24..]);
        assert!(!begins_as(&cut, &said), "{cut_ms} ms");
        let quiet = [vec![0; 16_000], cut].concat();
        assert!(!begins_as(&quiet, &said), "{cut_ms} ms after silence");
    }
}

#[derive(Debug, Clone, Copy)]
enum Hangup {
    Caller,
    Tenant,
    Both,
    /// Meta sends another BYE after the end.
    CallerLate,
    TenantLate,
}

impl Hangup {
    const ALL: [Self; 5] = [
        Self::Caller,
        Self::Tenant,
        Self::Both,
        Self::CallerLate,
        Self::TenantLate,
    ];

    fn is_late(self) -> bool {
        matches!(self, Self::CallerLate | Self::TenantLate)
    }
}

/// Waits until the service has the call of this WhatsApp id; returns its own.
async fn id_of(world: &TestWorld, wacid: &str) -> String {
    eventually("the call to be listed", async || {
        let calls = world.tenant.calls().await;
        let mut calls = calls.iter();
        let call = calls.find(|call| call["metadata"]["whatsapp"]["callId"] == wacid)?;
        Some(call["id"].as_str().unwrap().to_owned())
    })
    .await
}

/// One call: the greeting is heard from its beginning, and somebody hangs up.
async fn passes(world: &TestWorld, plan: MetaCaller, said: &[i16], hangup: Hangup) {
    let wacid = format!("wacid.{}", plan.id);
    let mut call: MetaCall = plan.call().await.unwrap();
    eventually(
        &format!("{wacid}: the greeting to be heard whole"),
        async || begins_as(&call.media.heard(), said).then_some(()),
    )
    .await;
    match hangup {
        Hangup::Caller | Hangup::CallerLate => call.hang_up().await,
        Hangup::Tenant | Hangup::Both | Hangup::TenantLate => {
            let path = format!("/calls/{}/hangup", id_of(world, &wacid).await);
            world.tenant.api.post(&path, json!({})).await.expect(202);
            call.hung_up().await;
        }
    }
    assert_eq!(call.forbidden(), Vec::<String>::new());
    assert_eq!(call.media.packets().1, 0, "every packet is authentic");
}

#[actix_web::test]
async fn fifty_calls_from_whatsapp_are_greeted_whole_and_settled_once_whoever_hangs_up() {
    let Some(installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let mut world = TestWorld::on(installation, WorldSetup::new().minutes(100)).await;
    world.tenant.change_agent(json!({"language": "en"})).await;
    let folder = world.server.installation.folder.path().to_owned();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    write("sip.pem", certificate::SERVER);
    write("sip.key", certificate::SERVER_KEY);
    let text = format!(
        "[telephony.voice]\nprovider = \"scripted\"\n[telephony.sip]\nlisten = [\"tls://127.0.0.1:0\"]\nsrtp = \"off\"\n\
         tls_certificate_file = \"sip.pem\"\ntls_key_file = \"sip.key\"\n[[telephony.sip.trunks]]\n\
         name = \"wa\"\npreset = \"whatsapp\"\naddresses = [\"127.0.0.0/8\"]\nnumber = \"{}\"\n",
        world.tenant.did
    );
    write("wa.toml", text.as_bytes());
    let file = folder.join("wa.toml").display().to_string();
    world.server.installation.set("config", &file);
    let service = world.server.http.clone();
    let bridge = StandaloneBridge::start(&world, &service, "wa.log");
    let (edge, did) = (bridge.addresses[0], world.tenant.did.clone());
    let (_, said) = Phrase::Greeting.spoken("en");
    let run = format!("{:x}", rand::random::<u32>());
    for batch in 0..10 {
        let calls = (0..5).map(|at| {
            let number = 5 * batch + at;
            let hangup = Hangup::ALL[at];
            let plan = MetaCaller::new(edge, &did, &format!("{run}-{number}"));
            let plan = MetaCaller {
                hangs_up_too: matches!(hangup, Hangup::Both),
                terminates_late: hangup.is_late(),
                ..plan
            };
            passes(&world, plan, &said, hangup)
        });
        futures_util::future::join_all(calls).await;
    }
    // A doubled INVITE beside a running call is not another one.
    let plan = MetaCaller {
        caller: "ID.13491208655302741918".to_owned(),
        ..MetaCaller::new(edge, &did, &format!("{run}-50"))
    };
    let mut call = plan.call().await.unwrap();
    let doubled = MetaCaller {
        id: format!("{run}-doubled"),
        ..plan
    };
    let refused = doubled.call().await.unwrap_err();
    assert!(refused.starts_with("SIP/2.0 482"), "{refused}");
    call.hears(Duration::from_millis(500)).await;
    call.hang_up().await;

    let calls = world.tenant.calls().await;
    assert_eq!(calls.len(), 51);
    for call in &calls {
        let over = world.tenant.call_over(call["id"].as_str().unwrap()).await;
        assert_eq!(over["status"], "ended", "{over}");
        let billed = world.tenant.billed(over["id"].as_str().unwrap()).await;
        assert_eq!(billed, Some(1), "{over}");
        assert_eq!(over["metadata"]["sip"]["codec"], "opus", "{over}");
    }
    let mut callers = calls.iter().map(|call| call["callerNumber"].clone());
    assert!(callers.any(|caller| caller == "ID.13491208655302741918"));
    world.assert_ledger_is_exact();
}
