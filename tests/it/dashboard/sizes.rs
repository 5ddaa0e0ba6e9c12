//! Sizes and compression of pages.

use std::{collections::BTreeSet, io::Read};

use flate2::read::GzDecoder;

use super::*;
use crate::support::visitor::{PAGE_BYTES, VisitedPage, kind};

/// Maximum transfer of a first visit.
const FIRST_VISIT_BYTES: usize = 60 * 1024;

/// The page of a client that accepts gzip, decompressed.
#[track_caller]
fn unpacked(page: &VisitedPage) -> String {
    let what = (page.header("content-encoding"), page.header("vary"));
    assert_eq!(
        what,
        (Some("gzip"), Some("Accept-Encoding")),
        "{}",
        page.path
    );
    let mut html = String::new();
    let mut decoder = GzDecoder::new(&page.body[..]);
    decoder.read_to_string(&mut html).unwrap();
    html
}

/// Inserts copies of a table's first row; `n` numbers them in `set`.
async fn more(world: &TestWorld, table: &str, count: usize, set: &str) {
    let sql = format!(
        "CREATE TEMP TABLE more AS WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count}) \
         SELECT first.*, n FROM (SELECT * FROM {table} LIMIT 1) AS first, n; \
         UPDATE more SET {set}; ALTER TABLE more DROP COLUMN n; INSERT INTO {table} SELECT * FROM more"
    );
    execute(&world.server, &sql).await;
}

/// The row's number as the end of an id.
const NTH: &str = "printf('01k9zv3m8rj2q4w6y8a0%06d', n)";
/// A long name with a character that HTML must escape.
const NAME: &str = "printf('Toko Kopi Senja, Bandung & Cimahi no. %d', n)";

/// Fills all lists to their limits, or beyond one page.
async fn full_lists(world: &TestWorld) {
    let tenant = &world.tenant;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/order"))
        .await;
    let bridge = tenant.bridge(Http).await;
    for _ in 0..30 {
        let call = bridge.talk(&tenant.did).await;
        bridge.hang_up(&call).await;
        world.event("call.ended", &call).await;
    }
    let rows = [
        (
            "agents",
            999,
            format!("id = 'agent_' || {NTH}, name = {NAME}"),
        ),
        (
            "functions",
            99,
            format!("id = 'fn_' || {NTH}, name = printf('check_the_order_no_%d', n)"),
        ),
        (
            "phone_numbers",
            200,
            format!("id = 'pn_' || {NTH}, did = printf('+62215%07d', n), label = {NAME}"),
        ),
        (
            "api_keys",
            99,
            format!("id = 'key_' || {NTH}, hash = printf('%064d', n), name = {NAME}"),
        ),
        (
            "api_keys",
            99,
            format!(
                "id = 'key_' || replace({NTH}, 'a0', 'b0'), hash = printf('1%063d', n), name = {NAME}, revoked_at = created_at"
            ),
        ),
        (
            "users",
            99,
            format!(
                "id = 'user_' || {NTH}, email = printf('pegawai.%d@senja.example', n), name = {NAME}, password_hash = NULL"
            ),
        ),
        (
            "webhooks",
            19,
            format!("id = 'wh_' || {NTH}, url = url || printf('/%d?from=dikala&tenant=senja', n)"),
        ),
        ("audit", 99, format!("id = 'aud_' || {NTH}, at = at + n")),
    ];
    for (table, count, set) in rows {
        more(world, table, count, &set).await;
    }
}

/// Every linked page, one of each kind, with full lists: within the size limit, and compressed on request.
#[rstest]
#[actix_web::test]
async fn every_page_is_small_and_packed_for_who_asks(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    full_lists(&world).await;
    for language in ["en", "id"] {
        let browser = owner.browser.clone().with("accept-language", language);
        let packed = browser.clone().with("accept-encoding", "gzip, br");
        let (mut seen, mut to_see) = (BTreeSet::new(), vec!["/dashboard".to_owned()]);
        let mut large = Vec::new();
        while let Some(path) = to_see.pop() {
            if path.contains(".csv") || !path.starts_with("/dashboard") || !seen.insert(kind(&path))
            {
                continue;
            }
            let page = packed.open(&path).await;
            assert_eq!(page.status, 200, "{path}");
            let html = unpacked(&page);
            if html.len() >= PAGE_BYTES {
                large.push(format!("{path} has {} bytes in {language}", html.len()));
            }
            assert!(
                page.body.len() < html.len() * 3 / 4,
                "{path}: {}",
                page.body.len()
            );
            to_see.extend(browser.open(&path).await.links());
        }
        assert!(large.is_empty(), "{}", large.join("\n"));
        assert!(seen.len() > 25, "{seen:?}");
    }
    // Refused forms are compressed, too; files are streamed.
    let packed = owner.browser.clone().with("accept-encoding", "gzip, br");
    let form = owner.browser.open("/dashboard/agents/new").await;
    let refused = packed.submit(&form.form("/dashboard/agents/new")).await;
    assert_eq!(refused.status, 422);
    unpacked(&refused);
    let file = packed.open("/dashboard/calls.csv").await;
    assert_eq!(file.header("content-encoding"), None);
}

/// The pages of a list contain each item exactly once.
#[rstest]
#[actix_web::test]
async fn a_long_list_is_read_to_its_end(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    full_lists(&world).await;
    let agent = format!("/dashboard/agents/{}", world.tenant.agent);
    for (list, thing, count) in [
        (KEYS, "/dashboard/settings/keys/key_", 100),
        (MEMBERS, "/dashboard/settings/members/user_", 100),
        ("/dashboard/agents", "/dashboard/agents/agent_", 1_000),
        (&*agent, "/functions/check_", 100),
    ] {
        let (mut found, mut path) = (Vec::new(), list.to_owned());
        loop {
            let page = owner.browser.open(&path).await;
            assert_eq!(page.status, 200, "{path}");
            let table = page.html.split("<table").nth(1).unwrap();
            let html = table.split("</table>").next().unwrap();
            let on_page: BTreeSet<String> = html
                .split('"')
                .filter(|text| text.contains(thing) && !text.ends_with("/link"))
                .map(|text| text.split(thing).nth(1).unwrap())
                .map(|text| text.split('/').next().unwrap().to_owned())
                .collect();
            found.extend(on_page);
            let older = page
                .links()
                .into_iter()
                .find(|link| link.contains("before="));
            match older {
                Some(older) => path = older,
                None => break,
            }
        }
        let each: BTreeSet<&String> = found.iter().collect();
        assert_eq!((found.len(), each.len()), (count, count), "{list}");
    }
}

/// A long call has several small pages that together contain all utterances.
#[rstest]
#[actix_web::test]
async fn a_long_call_is_read_page_by_page(#[values(Sqlite)] store: StoreKind) {
    const TURNS: usize = 300;
    let world = world!(store);
    let browser = owner(&world).await.browser;
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    let turn = |n: usize| {
        let text = format!("Kalimat {n:03}: \"begitu\" & {}", "kata ".repeat(25));
        json!({"role": if n.is_multiple_of(2) { "agent" } else { "caller" }, "text": text})
    };
    let turns: Vec<Value> = (0..TURNS).map(turn).collect();
    let said = json!({"callId": call, "summary": "Panjang.", "turns": turns});
    bridge.ok("call.transcript", said).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    let (mut found, mut path) = (Vec::new(), format!("/dashboard/calls/{call}"));
    loop {
        let page = browser.open(&path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.html.len() < PAGE_BYTES, "{path}: {}", page.html.len());
        let sentences = page.html.split("Kalimat ").skip(1);
        found.extend(sentences.map(|rest| rest[..3].parse::<usize>().unwrap()));
        let next = page
            .links()
            .into_iter()
            .find(|link| link.contains("?from="));
        match next {
            Some(next) => path = next,
            None => {
                page.assert_shows("The call ended");
                break;
            }
        }
    }
    assert_eq!(found, (0..TURNS).collect::<Vec<_>>());
    let beyond = browser
        .open(&format!("/dashboard/calls/{call}?from=99999"))
        .await;
    assert_eq!(beyond.status, 200);
    beyond.assert_shows("From the start");
}

/// Some of many agents are offered; any other is found by a part of its name, in any case.
#[rstest]
#[actix_web::test]
async fn one_of_a_thousand_agents_is_found_by_its_name(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let browser = owner(&world).await.browser;
    let path = format!("/dashboard/numbers/{}/assign-agent", world.tenant.number);
    let few = browser.open(&path).await;
    assert_eq!(
        few.forms()
            .iter()
            .filter(|form| form.method == "get")
            .count(),
        0
    );
    more(
        &world,
        "agents",
        999,
        &format!("id = 'agent_' || {NTH}, name = printf('Cabang Café %d', n)"),
    )
    .await;
    let many = browser.open(&path).await;
    many.assert_shows("The newest 50 are shown, 950 more exist.");
    // The current agent is always offered.
    assert_eq!(
        many.form(&path).value("agentId"),
        Some(&*world.tenant.agent)
    );
    assert_eq!(many.html.matches("<option").count(), 51);
    let found = browser.open(&format!("{path}?name=CAF%C3%89+7")).await;
    found.assert_shows("The newest 50 are shown, 61 more exist.");
    let found = browser.open(&format!("{path}?name=caf%C3%A9+777")).await;
    found.assert_hides("The newest 50");
    assert_eq!(found.html.matches("<option").count(), 3);
    assert_eq!(found.input("name")["value"], "café 777");
    let agent = "agent_01k9zv3m8rj2q4w6y8a0000777";
    let form = found.form(&path).set("agentId", agent);
    browser.submit(&form).await.assert_shows("Café 777");
    let number = world
        .tenant
        .api
        .get(&format!("/phone-numbers/{}", world.tenant.number))
        .await
        .expect(200);
    assert_eq!(number["agentId"], agent);
    let none = browser.open(&format!("{path}?name=%07nobody")).await;
    assert_eq!(none.status, 200);
    none.assert_shows("No agent has that in its name.");
    none.form(&path);
    // An invalid text is ignored in a search.
    let all = browser.open(&format!("{path}?name=%00nobody")).await;
    all.assert_shows("The newest 50 are shown, 950 more exist.");
}

#[rstest]
#[actix_web::test]
async fn a_first_visit_is_small_and_its_assets_are_kept_for_a_year(
    #[values(Sqlite)] store: StoreKind,
) {
    let world = world!(store);
    let browser = Visitor::new(&world.server.http);
    let packing = browser.clone().with("accept-encoding", "br, gzip");
    let page = browser.open(SIGN_IN).await;
    let mut total = packing.open(SIGN_IN).await.body.len();
    let assets: Vec<&str> = page
        .html
        .split('"')
        .filter(|text| text.starts_with("/dashboard/assets/"))
        .collect();
    assert!(assets.len() >= 3, "{assets:?}");
    for path in assets {
        let plain = browser.fetch(path).await;
        assert_eq!(plain.status, 200);
        assert_eq!(
            plain.header("cache-control"),
            Some("public, max-age=31536000, immutable")
        );
        let packed = packing.fetch(path).await;
        assert_eq!(unpacked(&packed), plain.html);
        total += packed.body.len();
        let gone = browser.fetch(&path.replace('-', "-0")).await;
        assert_eq!(gone.status, 404);
    }
    assert!(total < FIRST_VISIT_BYTES, "{total}");
}
