//! Takes the pictures of `docs/dashboard.md` and `docs/operators.md`, of a shop like that of `dikala dev`. Values
//! that differ in each run, such as times, are replaced, so that a picture changes only with its page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{
    console::{Simulation, sign_in},
    *,
};
use crate::dashboard::execute;

/// Set to 1 to store the pictures in the documentation; otherwise they are discarded.
const KEEP: &str = "DIKALA_PICTURES";
const FOLDER: &str = "docs/pictures";
const DOCUMENTS: [&str; 2] = [
    include_str!("../../../docs/dashboard.md"),
    include_str!("../../../docs/operators.md"),
];
/// Maximum size of all pictures together.
const BYTES_MAX: u64 = 900 * 1024;
const WIDE: (u32, u32) = (1100, 860);
/// The visible part of a page before scrolling.
const LOW: (u32, u32) = (1100, 560);
const TELEPHONE: (u32, u32) = (360, 740);
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const QUARTER_MS: i64 = 15 * 60 * 1_000;
/// The reader's zone, UTC+7.
const JAKARTA_MS: i64 = 7 * 60 * 60 * 1_000;
/// Answered and missed calls of each hour from 08:00 on.
const HOURS: [(i64, i64); 12] = [
    (4, 0),
    (9, 1),
    (14, 1),
    (17, 2),
    (21, 3),
    (16, 1),
    (12, 0),
    (15, 2),
    (19, 1),
    (23, 2),
    (11, 1),
    (5, 0),
];
/// Replaces times, ids and addresses that differ in each run.
const STILL: &str = r"
    for (const time of document.querySelectorAll('time:not(.conversation time)')) {
        time.textContent = time.closest('.calls') ? '10:30:05' : arguments[0];
    }
    for (const day of document.querySelectorAll('.day th')) day.textContent = arguments[0].slice(0, 11);
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data
        .replace(/_[0-9a-z]{26}/g, '_01kf2j8w6t4x9r3m5p7q0s1v2y').replace(/http:..127.0.0.1:\d+/g, 'https://senja.example');
    document.activeElement.blur();
    scrollTo(0, 0);";

/// A shop with a day's history, an active call, and a server that refuses deliveries.
async fn shop() -> Option<TestWorld> {
    let setup = WorldSetup::new()
        .set("operator.token", "the-operators-full-token")
        .minutes(600);
    let world = TestWorld::start(Sqlite, setup).await?;
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({
            "name": "Ayu", "voiceId": "Kore", "greetingText": "Halo, dengan Ayu. Ada yang bisa dibantu?",
            "systemPrompt": "Kamu menjawab telepon Kopi Senja di Bandung: ramah, singkat, dalam bahasa Indonesia.",
        }))
        .await;
    let answer = json!({"status": "on its way", "days": 2});
    world
        .receiver
        .answer("/orders", [ServerAnswer::Json(answer)]);
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/orders"))
        .await;
    world.receiver.answer("/till", [ServerAnswer::Status(503)]);
    tenant
        .subscribe(&world.receiver.url("/till"), &["call.ended"], SECRET)
        .await;
    past(&world).await;
    Some(world)
}

/// Today's statistics, whatever the time of day.
async fn past(world: &TestWorld) {
    let now = Moment::now().ms_since(Moment::parse(&json!("1970-01-01T00:00:00.000Z")));
    let midnight = now - (now + JAKARTA_MS) % DAY_MS;
    for (hour, (answered, missed)) in (8..).zip(HOURS) {
        let sql = format!(
            "INSERT INTO call_stats (tenant_id, subject, slot, calls, answered, ended, dropped, failed, minutes, talk_seconds, \
             duration_seconds) VALUES ('{}', '', {}, {}, {answered}, {answered}, {missed}, 0, {}, {}, {})",
            world.tenant.id,
            midnight + hour * 4 * QUARTER_MS,
            answered + missed,
            answered * 2,
            answered * 95,
            answered * 100,
        );
        execute(&world.server, &sql).await;
    }
}

/// A conversation about an order, from ring to hang-up.
async fn conversation(world: &TestWorld, bridge: &TestBridge) -> String {
    let began = Moment::ago(18);
    let call = bridge.talk_since(&world.tenant.did, began).await;
    let asked = json!({
        "callId": call, "invocationId": "one", "name": "check_order", "parameters": {"orderId": "A-1042"},
    });
    bridge.ok("call.function", asked).await;
    let said = json!({
        "callId": call, "summary": "Ibu Tuti asked for order A-1042. It arrives in two days.",
        "turns": [
            {"role": "agent", "text": "Halo, dengan Ayu. Ada yang bisa dibantu?", "at": began.plus(1).text()},
            {"role": "caller", "text": "Pesanan saya A-1042 sampai mana, ya?", "at": began.plus(5).text()},
            {"role": "agent", "text": "Sudah di jalan, Bu. Dua hari lagi sampai.", "at": began.plus(11).text()},
        ],
    });
    bridge.ok("call.transcript", said).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    call
}

/// Takes a picture of the window; a small window in double resolution.
async fn take(browser: &Browser, name: &str, size: (u32, u32), time: &str) -> (String, Vec<u8>) {
    browser.run_with(STILL, json!([time])).await;
    let scale = if size.0 < 400 { 2 } else { 1 };
    (name.to_owned(), browser.picture(size, scale).await)
}

async fn all(browser: &Browser, world: &TestWorld) -> Vec<(String, Vec<u8>)> {
    const TIME: &str = "15 Jan 2026, 10:30 WIB";
    let base = format!("{}/dashboard", world.server.http);
    let bridge = world.tenant.bridge(Socket).await;
    let call = conversation(world, &bridge).await;
    world.receiver.wait_for("/till", 1).await;
    bridge.talk(&world.tenant.did).await;
    enter(browser, &invited(world, "rina@example.com"), "Sign in").await;
    browser.fill("New password", "kopi susu gula aren").await;
    browser.press("Set password").await;
    browser.see("Needs attention").await;
    browser.look(WIDE.0, "light").await;
    browser.go(&base).await;
    let mut taken = vec![take(browser, "home", WIDE, TIME).await];
    browser.go(&format!("{base}/calls/{call}")).await;
    browser.see("Conversation").await;
    taken.push(take(browser, "call", (1100, 800), TIME).await);
    browser
        .go(&format!("{base}/agents/{}", world.tenant.agent))
        .await;
    browser.see("Talk to it").await;
    taken.push(take(browser, "agent", WIDE, TIME).await);
    browser.look(WIDE.0, "dark").await;
    browser.go(&format!("{base}/webhooks")).await;
    browser.press(&world.receiver.url("/till")).await;
    browser.see("Attempts per hour").await;
    taken.push(take(browser, "webhook", WIDE, TIME).await);
    taken
}

/// The pages on a telephone, in Indonesian.
async fn all_on_a_telephone(browser: &Browser, world: &TestWorld) -> Vec<(String, Vec<u8>)> {
    const TIME: &str = "15 Jan 2026 10.30 WIB";
    let base = format!("{}/dashboard", world.server.http);
    enter(browser, &invited(world, "tuti@example.com"), "Masuk").await;
    browser.look(TELEPHONE.0, "light").await;
    browser.go(&format!("{base}/calls")).await;
    browser.see("berlangsung").await;
    let mut taken = vec![take(browser, "calls-telephone", TELEPHONE, TIME).await];
    browser.go(&format!("{base}/agents/new")).await;
    browser.fill("Nama", "Sinta").await;
    browser.press("Buat agen").await;
    browser.see("Wajib diisi").await;
    taken.push(take(browser, "agent-telephone", TELEPHONE, TIME).await);
    taken
}

/// The console's pages while calls come in.
async fn all_of_the_console(browser: &Browser, world: &TestWorld) -> Vec<(String, Vec<u8>)> {
    let _calls = Simulation::of(world, "100000", "5", "2");
    browser.look(WIDE.0, "light").await;
    sign_in(browser, world).await;
    // Wait until the line charts have enough samples.
    let minute = Moment::now().plus(45);
    minute.passed().await;
    browser.see("keeps failing").await;
    let mut taken = vec![take(browser, "console-overview", (1100, 1000), "03:30:00").await];
    let base = &world.server.operator;
    browser.go(&format!("{base}/webhooks")).await;
    browser.see("/till").await;
    taken.push(take(browser, "console-webhooks", LOW, "03:30:00").await);
    browser
        .go(&format!("{base}/tenants/{}", world.tenant.id))
        .await;
    browser.see("Suspend").await;
    taken.push(take(browser, "console-tenant", LOW, "03:30:00").await);
    browser.go(&format!("{base}/actors")).await;
    browser.see("Event loops").await;
    browser.look(WIDE.0, "dark").await;
    taken.push(take(browser, "console-actors", WIDE, "03:30:00").await);
    taken
}

#[ignore = "starts two more browsers; `.ci/slow` runs it, and with DIKALA_PICTURES=1 it writes docs/pictures"]
#[actix_web::test]
async fn the_pictures_of_the_documentation_can_be_taken() {
    let browsers = (Browser::open("en").await, Browser::open("id").await);
    let (Some(wide), Some(telephone)) = browsers else {
        return;
    };
    let world = shop().await.unwrap();
    let mut taken = all(&wide, &world).await;
    taken.extend(all_on_a_telephone(&telephone, &world).await);
    taken.extend(all_of_the_console(&wide, &world).await);
    let names: BTreeSet<String> = taken
        .iter()
        .map(|(name, _)| format!("{name}.png"))
        .collect();
    assert_eq!(names, shown().into_keys().collect());
    let keeps = std::env::var(KEEP).as_deref() == Ok("1");
    for (name, bytes) in taken {
        assert!(bytes.len() > 10_000, "{name} is empty");
        if keeps {
            fs::write(folder().join(format!("{name}.png")), bytes).unwrap();
        }
    }
}

#[test]
fn the_documentation_shows_pictures_that_are_there_and_small() {
    let shown = shown();
    let there = fs::read_dir(folder()).unwrap();
    let there: BTreeSet<String> = there
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, shown.keys().cloned().collect());
    let mut total = 0;
    for (name, instead) in shown {
        let bytes = fs::read(folder().join(&name)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"), "{name}");
        assert!(instead.len() > 30, "{name} needs words in its place");
        total += u64::try_from(bytes.len()).unwrap();
    }
    assert!(total < BYTES_MAX, "{total}");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER)
}

/// The pictures in the documents, with their alternative texts.
fn shown() -> BTreeMap<String, String> {
    let pictures = DOCUMENTS.iter().flat_map(|text| text.split("![").skip(1));
    let picture = |text: &str| {
        let (instead, rest) = text.split_once("](pictures/").unwrap();
        let (name, _) = rest.split_once(')').unwrap();
        (name.to_owned(), instead.to_owned())
    };
    pictures.map(picture).collect()
}
