//! Password guessing with thousands of attempts.

use std::{cell::Cell, collections::BTreeMap, rc::Rc, time::Duration};

use awc::{Client, Connector};

use super::*;

/// Number of wrong passwords.
const TRIED: usize = 10_000;
/// Attempts that are checked per email address, and per network address.
const OF_EMAIL: usize = 10;
const OF_NETWORK: usize = 50;
/// Concurrent connections.
const AT_ONCE: usize = 32;
/// Maximum growth of the server's peak memory. Two passwords are hashed at once, in 19 MB each.
const MORE_MB: u64 = 96;

/// An attempt.
struct Guess {
    email: String,
    /// The client's address in `X-Forwarded-For`.
    address: String,
}

/// Half of the attempts are about one person from many networks, the other half about many addresses from one
/// network.
fn guess(n: usize, victim: &str) -> Guess {
    match n % 2 {
        0 => Guess {
            email: victim.to_owned(),
            address: format!("203.{}.{}.7", n / 250 % 250, n % 250),
        },
        _ => Guess {
            email: format!("guess{n}@example.com"),
            address: "198.51.100.9".to_owned(),
        },
    }
}

/// Makes all attempts; returns the number of each status.
async fn try_all(world: &TestWorld, victim: &str) -> BTreeMap<u16, usize> {
    let browser = Visitor::new(&world.server.http);
    let form = browser.open(SIGN_IN).await.form(SIGN_IN);
    let token = form.value("_token").unwrap().to_owned();
    let (name, value) = browser.cookies().pop_first().unwrap();
    let cookie = format!("{name}={value}");
    let next = Rc::new(Cell::new(0));
    let line = async || {
        let connector = Connector::new().timeout(Duration::from_secs(10));
        let client = Client::builder()
            .connector(connector)
            .timeout(Duration::from_secs(60))
            .finish();
        let mut statuses = Vec::new();
        loop {
            let n = next.replace(next.get() + 1);
            if n >= TRIED {
                return statuses;
            }
            let Guess { email, address } = guess(n, victim);
            let fields = [
                ("_token", token.as_str()),
                ("next", ""),
                ("email", &email),
                ("password", &format!("wrong password no. {n}")),
            ];
            let request = client
                .post(format!("{}{SIGN_IN}", world.server.http))
                .insert_header(("origin", world.server.http.as_str()))
                .insert_header(("cookie", cookie.as_str()))
                .insert_header(("x-forwarded-for", address));
            let mut answer = request.send_form(&fields).await.unwrap();
            answer.body().await.unwrap();
            statuses.push(answer.status().as_u16());
        }
    };
    let all = futures_util::future::join_all((0..AT_ONCE).map(|_| line())).await;
    let mut counted = BTreeMap::new();
    for status in all.into_iter().flatten() {
        *counted.entry(status).or_default() += 1;
    }
    counted
}

/// Most attempts are refused without a check, and cost few rows and no memory. The owner of the password gets in by
/// a link at once, and with the password later.
#[rstest]
#[actix_web::test]
async fn ten_thousand_wrong_passwords_are_refused(#[values(Sqlite)] store: StoreKind) {
    let setup = WorldSetup::new().set("http.trusted_proxies", "127.0.0.1");
    let world = world!(store, setup);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let memory = server.peak_memory_mb();
    let came = try_all(&world, &owner.email).await;
    let looked_at = OF_EMAIL + OF_NETWORK;
    // A busy machine refuses some attempts with 503.
    let count = |status: u16| came.get(&status).copied().unwrap_or_default();
    assert_eq!(count(422), looked_at, "{came:?}");
    assert_eq!(count(429) + count(503), TRIED - looked_at, "{came:?}");
    assert!(count(503) < TRIED / 100, "{came:?}");
    let more = server.peak_memory_mb() - memory;
    assert!(more < MORE_MB, "{more} MB");
    // Each checked attempt has a row for its email address and one for its network; one of them is shared by all. So may
    // one that was let in and then refused with 503.
    let rows = server.installation.store.count("sign_in_failures").await;
    assert!(rows <= looked_at + 2 + 2 * count(503), "{rows}, {came:?}");
    assert!(!server.log().contains("wrong password no."));

    // Meanwhile the right password is refused, too, from any network.
    let browser = owner.browser.another();
    let page = try_password(&browser, &owner.email, PASSWORD).await;
    assert_eq!(page.status, 429);
    assert!(page.header("retry-after").is_some());
    assert!(is_in(&owner.browser).await, "who is in stays in");
    let link = server.cli(&["user", "login-link", &owner.id]);
    let by_link = owner.browser.another();
    assert_eq!(
        come_by(&by_link, &text(&link, "url")).await.path,
        "/dashboard/password"
    );
    // Other people are not affected.
    let other = somebody(server, tenant, "other@example.com", "viewer").await;
    let page = try_password(&browser, &other.email, PASSWORD).await;
    assert_eq!(page.status, 303);
    // After a quarter of an hour.
    execute(
        server,
        "UPDATE sign_in_failures SET failed_at = '[1,2,3,4,5,6,7,8,9,10]'",
    )
    .await;
    let page = try_password(&owner.browser.another(), &owner.email, PASSWORD).await;
    assert_eq!(page.status, 303);
}
