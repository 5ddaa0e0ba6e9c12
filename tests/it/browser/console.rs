//! The operators' console in a real browser: live figures during calls, and accessibility of all pages.

use std::process::{Child, Stdio};

use dikala_testkit::{PATIENCE, within};

use super::*;
use crate::support::{scrape::Scrape, world::HOOK};

const TOKEN: &str = "the-operators-full-token";

/// Simulated calls for as long as this value lives.
pub struct Simulation(Child);

impl Drop for Simulation {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Simulation {
    pub fn of(world: &TestWorld, calls: &str, concurrency: &str, talk: &str) -> Self {
        let (server, tenant) = (&world.server, &world.tenant);
        let simulate = [
            "simulate",
            "--url",
            &server.http,
            "--token",
            &tenant.token,
            "--did",
            &tenant.did,
            "--calls",
            calls,
            "--concurrency",
            concurrency,
            "--talk-seconds",
            talk,
        ];
        let mut command = server.installation.command(&simulate);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    /// Waits until all calls have ended.
    async fn done(&mut self) {
        within(3 * PATIENCE, "the simulation to end", async || {
            self.0.try_wait().unwrap().map(drop)
        })
        .await;
    }
}

fn guarded() -> WorldSetup {
    WorldSetup::new()
        .set("operator.token", TOKEN)
        .minutes(100_000)
        .concurrent_calls(200)
}

/// Signs in by typing the token.
pub async fn sign_in(browser: &Browser, world: &TestWorld) {
    browser.go(&world.server.operator).await;
    browser.fill("Token", TOKEN).await;
    browser.press("Sign in").await;
    browser.see("Problems").await;
}

/// The value below a figure's label.
async fn figure(browser: &Browser, label: &str) -> Option<String> {
    let script = "const found = [...document.querySelectorAll('.lines > div')]
        .find(it => it.querySelector('h3').textContent === arguments[0]);
        return found ? found.querySelector('.value').firstChild.textContent : null";
    let found = browser.run_with(script, json!([label])).await;
    found.as_str().map(str::to_owned)
}

/// The browser's figures change by themselves, and agree with the metrics, the API and the store.
#[actix_web::test]
async fn figures_move_and_agree_with_everybody_else() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite, guarded());
    sign_in(&browser, &world).await;
    browser
        .see("Nothing. Calls, minutes and webhooks flow.")
        .await;
    assert_eq!(figure(&browser, "Calls now").await.as_deref(), Some("0"));
    // The page is not reloaded: a mark set on its window stays.
    browser.run("window.marked = true").await;
    let mut simulation = Simulation::of(&world, "1000", "50", "0.8");
    let mut seen = BTreeSet::new();
    eventually("figures that move", async || {
        seen.extend(figure(&browser, "Calls now").await);
        let ended = figure(&browser, "Calls that ended").await?;
        let answered = figure(&browser, "Answered").await?;
        let above_nothing = |figure: &str| figure.parse::<f64>().is_ok_and(|it| it > 0.0);
        let all_move = seen.len() > 2 && above_nothing(&ended) && above_nothing(&answered);
        all_move.then_some(())
    })
    .await;
    browser.see("Live – Pause").await;
    simulation.done().await;
    let bridge = world.tenant.bridge(Socket).await;
    for _ in 0..3 {
        bridge.talk(&world.tenant.did).await;
    }
    eventually("three calls", async || {
        (figure(&browser, "Calls now").await.as_deref() == Some("3")).then_some(())
    })
    .await;
    assert_eq!(browser.run("return window.marked").await, json!(true));
    let bearer = format!("Bearer {TOKEN}");
    let operators = Rest::new(&world.server.operator).with("authorization", &bearer);
    let metrics = operators.get("/metrics").await.text;
    let ended = metrics
        .lines()
        .filter(|line| line.starts_with("dikala_calls_total{"));
    let ended = ended.map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(ended.sum::<u32>(), 1_000);
    let scrape = Scrape::read(metrics);
    let answered = scrape.value("dikala_calls_active", &[("status", "answered")]);
    assert_eq!(answered, 3.0);
    let running = operators
        .get("/operator/v1/calls?status=answered")
        .await
        .expect(200);
    assert_eq!(running["calls"].as_array().unwrap().len(), 3);
    let overview = operators.get("/operator/v1/overview").await.expect(200);
    assert_eq!(overview["figures"][0]["value"], 3);

    // Problems appear by themselves, too.
    world.receiver.answer(HOOK, [ServerAnswer::Status(500)]);
    bridge.ring(&world.tenant.did).await;
    browser.see("keeps failing").await;
    assert_eq!(browser.run("return window.marked").await, json!(true));
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// No page may have accessibility violations, browser errors, content from other sites, or text that overflows a
/// narrow window.
#[actix_web::test]
#[ignore = "keeps a processor busy for minutes, which others measure with; `.ci/slow` runs it"]
async fn every_page_of_the_console_is_for_everybody() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let Some(axe) = axe() else { return };
    let world = world!(Sqlite, guarded());
    let bridge = world.tenant.bridge(Socket).await;
    world.receiver.answer(HOOK, [ServerAnswer::Status(500)]);
    bridge.talk(&world.tenant.did).await;
    let mut faults = Vec::new();
    browser
        .go(&format!("{}/sign-in", world.server.operator))
        .await;
    for fault in barriers(&browser, &axe).await {
        faults.push(format!("/sign-in: {fault}"));
    }
    browser.look(1280, "light").await;
    sign_in(&browser, &world).await;
    browser.see("keeps failing").await;
    let (mut seen, mut to_see) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = to_see.pop() {
        if seen.len() >= PAGES_MAX || !seen.insert(path.clone()) {
            continue;
        }
        browser
            .go(&format!("{}{path}", world.server.operator))
            .await;
        for fault in barriers(&browser, &axe).await {
            faults.push(format!("{path}: {fault}"));
        }
        for link in browser.run(LINKS).await.as_array().unwrap() {
            let link = link.as_str().unwrap().to_owned();
            let known = seen.iter().chain(&to_see);
            if known.filter(|it| kind(it) == kind(&link)).count() < ALIKE_MAX {
                to_see.push(link);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen.len() > 5, "{seen:?}");
}

/// The paths of all linked pages.
const LINKS: &str =
    "return [...document.querySelectorAll('a[href]')].filter(a => a.origin === location.origin)
    .map(a => a.pathname + a.search).filter(p => !p.includes('.csv') && !p.includes('done='))";

/// A time, figure or id on two lines cannot be compared with those above and below it.
#[actix_web::test]
async fn tables_break_no_times_figures_and_ids_and_buttons_touch_no_heading() {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite, guarded());
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
    browser.look(1280, "light").await;
    sign_in(&browser, &world).await;
    let script = "const height = (node) => {
            const range = document.createRange();
            range.selectNodeContents(node);
            const lines = [...range.getClientRects()].filter((line) => line.height > 0);
            const tall = Math.max(...lines.map((line) => line.bottom)) - Math.min(...lines.map((line) => line.top));
            return lines.length ? tall / lines[0].height : 0;
        };
        const cells = [...document.querySelectorAll('.wide td :is(time, .word, .id), .wide td.figure')];
        const broken = cells.filter((cell) => height(cell) > 1.8).map((cell) => cell.textContent);
        const touching = [...document.querySelectorAll('main h2')].filter((heading) => {
            const before = heading.previousElementSibling;
            return before?.querySelector('button, .button')
                && heading.getBoundingClientRect().top - before.getBoundingClientRect().bottom < 8;
        }).map((heading) => heading.textContent);
        return [cells.length, ...broken, ...touching]";
    let mut seen = 0;
    for path in [
        "/calls",
        "/webhooks",
        "/bridges",
        "/tenants",
        "/audit",
        "/nodes",
    ] {
        browser
            .go(&format!("{}{path}", world.server.operator))
            .await;
        let found = browser.run(script).await;
        let found = found.as_array().unwrap();
        seen += found[0].as_u64().unwrap();
        assert_eq!(found.len(), 1, "{path}: {found:?}");
    }
    assert!(seen > 10, "{seen} cells");
}
