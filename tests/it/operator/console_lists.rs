//! Common properties of the console's pages, except overview and actors.

use super::{console::signed_in, *};
use crate::support::{
    tenant::{Tenant, text},
    visitor::HtmlForm,
};

/// Maximum size of a page, uncompressed and without assets.
const PAGE_BYTES: usize = 30 * 1024;
/// The only form on a page for the read token.
const SIGN_OUT: &str = "/sign-out";
const CALLER: &str = "+6281234567890";
/// A bridge may put a phone number into its own call id.
const IN_AN_ID: &str = "+6281592637480";
const PROMPT: &str = "a-prompt-that-nobody-sees";
const SAID: &str = "what-somebody-said";
/// Pages with fixed paths.
const LISTS: [&str; 12] = [
    "/calls",
    "/webhooks",
    "/deliveries",
    "/functions",
    "/ledger",
    "/bridges",
    "/tenants",
    "/nodes",
    "/database",
    "/http",
    "/configuration",
    "/audit",
];
/// Actions: the path, and the prefix of the id in it.
const ACTS: [(&str, &str); 16] = [
    ("/calls/{id}/hangup", "call"),
    ("/webhooks/{id}/pause", "wh"),
    ("/webhooks/{id}/resume", "wh"),
    ("/webhooks/{id}/recover", "wh"),
    ("/deliveries/{id}/resend", "dlv"),
    ("/bridges/{id}/revoke", "br"),
    ("/tenants/{id}", "ten"),
    ("/tenants/{id}/suspend", "ten"),
    ("/tenants/{id}/resume", "ten"),
    ("/tenants/{id}/keys", "ten"),
    ("/tenants/{id}/users", "ten"),
    ("/tenants/{id}/credits", "ten"),
    ("/tenants/{id}/numbers", "ten"),
    ("/keys/{id}/revoke", "key"),
    ("/users/{id}/remove", "user"),
    ("/numbers/{id}/delete", "pn"),
];

/// A world with some data of every kind, and lists longer than a page.
async fn full_world() -> (TestWorld, Vec<String>) {
    let setup = guarded().set("webhooks.retry_schedule_seconds", "3600");
    let world = TestWorld::start(Sqlite, setup).await.unwrap();
    let (tenant, api) = (&world.tenant, with(&world.server, FULL));
    tenant.change_agent(json!({"systemPrompt": PROMPT})).await;
    world
        .receiver
        .answer("/fails", vec![ServerAnswer::Status(500); 200]);
    let hook = tenant
        .subscribe(
            &world.receiver.url("/fails?token=hush"),
            &["call.started", "call.ended"],
            SECRET,
        )
        .await;
    tenant
        .create_function("find", "POST", &world.receiver.url("/fails"))
        .await;
    let bridge = tenant.bridge(Http).await;
    for n in 0..25 {
        let call = bridge.talk(&tenant.did).await;
        if n > 21 {
            continue;
        }
        let said = json!({"callId": call, "summary": SAID, "turns": [{"role": "caller", "text": SAID, "at": Moment::ago(1).text()}]});
        bridge.hang_up(&call).await;
        bridge.ok("call.transcript", said).await;
    }
    let named =
        json!({"did": tenant.did, "callerNumber": CALLER, "bridgeCallId": format!("{IN_AN_ID}-1")});
    let live = text(&bridge.ok("call.incoming", named).await, "callId");
    bridge.ok("call.answered", json!({"callId": live})).await;
    for n in 0..30 {
        let call = json!({"callId": live, "invocationId": format!("i{n}"), "name": "find", "parameters": {"orderId": SAID}});
        bridge.ok("call.function", call).await;
        let many = format!("many-{n}");
        let tenant_path = format!("/tenants/{}", tenant.id);
        api.post("/tenants", json!({"name": many}))
            .await
            .expect(201);
        api.post("/bridges", json!({"name": many}))
            .await
            .expect(201);
        api.post(&format!("{tenant_path}/keys"), json!({"name": many}))
            .await
            .expect(201);
        let person = json!({"email": format!("{many}@example.com")});
        api.post(&format!("{tenant_path}/users"), person)
            .await
            .expect(201);
        let booking = json!({"minutes": 1, "reference": many, "description": many});
        api.post(&format!("{tenant_path}/credits/transactions"), booking)
            .await
            .expect(201);
        let number =
            json!({"tenantId": tenant.id, "did": format!("+62215000{n:04}"), "label": many});
        api.post("/numbers", number).await.expect(201);
    }
    let bridges = api.get("/bridges").await.expect(200);
    let numbers = api.get("/numbers").await.expect(200);
    let mut pages: Vec<String> = LISTS.map(str::to_owned).to_vec();
    pages.extend([
        format!("/calls/{live}"),
        format!("/webhooks/{hook}"),
        format!("/bridges/{}", text(&bridges["bridges"][0], "id")),
        format!("/calls?tenantId={}", tenant.id),
        format!("/deliveries?webhookId={hook}&offset=20"),
        format!("/functions?tenantId={}&sort=p99", tenant.id),
        "/configuration?offset=50".to_owned(),
        format!("/audit?tenantId={}&action=credit.add", tenant.id),
    ]);
    for below in ["", "/credits", "/keys", "/users", "/numbers"] {
        pages.push(format!("/tenants/{}{below}", tenant.id));
    }
    assert_eq!(numbers["numbers"].as_array().unwrap().len(), 31);
    (world, pages)
}

fn planted(tenant: &Tenant) -> [&str; 10] {
    [
        &tenant.key,
        &tenant.token,
        SECRET,
        CALLER,
        IN_AN_ID,
        PROMPT,
        SAID,
        "token=hush",
        FULL,
        READ,
    ]
}

/// Checks every page with both tokens: it exists, is small, has the security headers, and contains no confidential
/// data.
#[actix_web::test]
async fn every_page_is_small_and_tells_no_secret() {
    let (world, pages) = full_world().await;
    for token in [FULL, READ] {
        let browser = signed_in(&world.server, token).await;
        for path in &pages {
            let page = browser.open(path).await;
            assert_eq!(page.status, 200, "{path}: {}", page.text());
            assert_eq!(page.path, *path);
            assert!(
                page.html.len() < PAGE_BYTES,
                "{path}: {} bytes",
                page.html.len()
            );
            assert_eq!(page.html.matches("<h1").count(), 1, "{path}");
            let policy = page.header("content-security-policy").unwrap();
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self'"),
                "{policy}"
            );
            for (name, value) in [
                ("cache-control", "no-store"),
                ("referrer-policy", "same-origin"),
                ("x-content-type-options", "nosniff"),
            ] {
                assert_eq!(page.header(name), Some(value), "{name} of {path}");
            }
            for forbidden in ["<style", " style=", " onclick=", "javascript:"] {
                page.assert_hides(forbidden);
            }
            for secret in planted(&world.tenant) {
                page.assert_hides(secret);
            }
            let posts = page
                .forms()
                .into_iter()
                .filter(|form| form.method == "post");
            let posts: Vec<String> = posts.map(|form| form.action).collect();
            if token == READ {
                assert_eq!(posts, [SIGN_OUT], "{path}");
                for link in page.links() {
                    let asks = [
                        "/hangup", "/revoke", "/suspend", "/recover", "/remove", "/delete", "/new",
                    ];
                    assert!(
                        !asks.iter().any(|ask| link.ends_with(ask)),
                        "{link} in {path}"
                    );
                }
            }
        }
    }
}

/// A list longer than a page continues with its filters.
#[actix_web::test]
async fn long_lists_come_page_by_page() {
    let (world, _) = full_world().await;
    let browser = signed_in(&world.server, READ).await;
    let tenant = format!("/tenants/{}", world.tenant.id);
    for (path, rows) in [
        (format!("/calls?tenantId={}", world.tenant.id), 26),
        ("/bridges".to_owned(), 31),
        ("/tenants?q=many".to_owned(), 30),
        (format!("{tenant}/keys"), 31),
        (format!("{tenant}/numbers"), 31),
        (format!("{tenant}/users"), 30),
    ] {
        let (mut next, mut seen) = (Some(path.clone()), 0);
        while let Some(path) = next.take() {
            let page = browser.open(&path).await;
            assert_eq!(page.status, 200, "{path}");
            let body = page.html.split("<tbody").nth(1).unwrap();
            let body = body.split("</tbody>").next().unwrap();
            let here = body.matches("<tr").count();
            assert!(here <= 20, "{here} rows in {path}");
            seen += here;
            let after = page.html.split("rel=\"next\"").next().unwrap();
            let links = page.links();
            next = page.html.contains("rel=\"next\"").then(|| {
                let at = after.rfind("href=\"").unwrap();
                let link = after[at + 6..]
                    .split('"')
                    .next()
                    .unwrap()
                    .replace("&amp;", "&");
                assert!(links.contains(&link));
                link
            });
        }
        assert_eq!(seen, rows, "{path}");
    }
}

#[actix_web::test]
async fn what_is_not_there_is_not_found() {
    let world = world!(Sqlite, guarded());
    let browser = signed_in(&world.server, FULL).await;
    let token = browser.open("/bridges").await.form("/bridges");
    let token = token.value("_token").unwrap().to_owned();
    for path in [
        ("/calls/{id}", "call"),
        ("/webhooks/{id}", "wh"),
        ("/bridges/{id}", "br"),
        ("/tenants/{id}", "ten"),
        ("/tenants/{id}/keys", "ten"),
        ("/tenants/{id}/users", "ten"),
        ("/tenants/{id}/credits", "ten"),
        ("/tenants/{id}/numbers", "ten"),
        ("/numbers/{id}", "pn"),
        ("/calls/{id}/hangup", "call"),
        ("/webhooks/{id}/recover", "wh"),
        ("/bridges/{id}/revoke", "br"),
        ("/tenants/{id}/suspend", "ten"),
        ("/keys/{id}/revoke", "key"),
        ("/users/{id}/remove", "user"),
        ("/numbers/{id}/delete", "pn"),
    ] {
        for id in [nobody(path.1), "nonsense".to_owned(), "%00".to_owned()] {
            let page = browser.open(&path.0.replace("{id}", &id)).await;
            assert_eq!(page.status, 404, "{} {id}", path.0);
        }
    }
    for (path, prefix) in ACTS.into_iter().filter(|(path, _)| path.contains("{id}")) {
        let action = path.replace("{id}", &nobody(prefix));
        let page = browser.post(&form(&action, &token)).await;
        assert_eq!(page.status, 404, "{action}");
    }
}

/// A hand-made form.
pub(super) fn form(action: &str, token: &str) -> HtmlForm {
    HtmlForm {
        action: action.to_owned(),
        method: "post".to_owned(),
        fields: vec![("_token".to_owned(), token.to_owned())],
    }
}

/// An error of a filter is shown beside it; unknown parameters are ignored.
#[actix_web::test]
async fn filters_are_read_as_the_api_reads_them() {
    let world = world!(Sqlite, guarded());
    let browser = signed_in(&world.server, READ).await;
    for (path, field) in [
        ("/calls?status=over", "status"),
        ("/calls?did=none&offset=5", "did"),
        ("/calls?from=yesterday", "from"),
        ("/webhooks?state=broken", "state"),
        ("/deliveries?webhookId=x", "webhookId"),
        ("/functions?sort=best", "sort"),
        ("/http?sort=best", "sort"),
        ("/audit?actor=somebody", "actor"),
        ("/tenants?q=Ko%00pi", "q"),
        ("/audit?tenantId=%3Cscript%3E", "tenantId"),
    ] {
        let page = browser.open(path).await;
        assert_eq!(page.status, 422, "{path}");
        assert_eq!(page.input(field)["aria-invalid"], "true", "{path}");
        page.assert_hides("<script>");
    }
    for path in LISTS {
        let page = browser
            .open(&format!("{path}?utm_source=mail&x=%00&x=2"))
            .await;
        assert_eq!(page.status, 200, "{path}");
        if path != "/nodes" && path != "/ledger" && path != "/database" {
            let nowhere = browser.open(&format!("{path}?offset=nonsense")).await;
            assert_eq!(nowhere.status, 422, "{path}");
        }
    }
}
